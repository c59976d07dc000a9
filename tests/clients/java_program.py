"""The Java program under java/: compiled with its libraries, ready to run."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from tests.clients.presence import need_command
from tests.clients.programs import fetched

HERE = Path(__file__).parent / "java"


def java_command(classes: Path) -> list[str]:
    """Compile the program into this directory; the command that runs it, without the name of the main class."""
    java, compiler = need_command("java", "the Java client"), need_command("javac", "the Java client")
    maven = need_command("mvn", "the Java client")
    command = [maven, "-q", "-B", "dependency:copy-dependencies", "-DoutputDirectory=lib"]
    libraries = f"{fetched('java', [HERE / 'pom.xml'], command)}/lib/*"
    sources = [os.fspath(source) for source in sorted(HERE.glob("*.java"))]
    subprocess.run(
        [compiler, "-Xlint:all", "-Werror", "-cp", libraries, "-d", os.fspath(classes), *sources], check=True
    )
    path = f"{classes}{os.pathsep}{libraries}"
    # Two compiled tiers cost more than they bring in a run of seconds.
    return [java, "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xmx256m", "-cp", path]

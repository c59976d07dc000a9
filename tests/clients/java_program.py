"""Java programs, such as the one under java/: compiled with their libraries, ready to run."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Sequence
from pathlib import Path

from tests.clients.presence import need_command
from tests.clients.programs import fetched

HERE = Path(__file__).parent / "java"


def java_command(classes: Path, program: Path = HERE, more: Sequence[Path] = ()) -> list[str]:
    """Compile the program in a directory, with more sources, into another directory; the command that runs it, without
    the name of the main class.
    """
    java, compiler = need_command("java", "the Java client"), need_command("javac", "the Java client")
    maven = need_command("mvn", "the Java client")
    command = [maven, "-q", "-B", "dependency:copy-dependencies", "-DoutputDirectory=lib"]
    libraries = f"{fetched('java', [program / 'pom.xml'], command)}/lib/*"
    sources = [os.fspath(source) for source in (*sorted(program.glob("*.java")), *more)]
    subprocess.run(
        [compiler, "-Xlint:all", "-Werror", "-cp", libraries, "-d", os.fspath(classes), *sources], check=True
    )
    path = f"{classes}{os.pathsep}{libraries}"
    # Two compiled tiers cost more than they bring in a run of seconds.
    return [java, "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xmx256m", "-cp", path]

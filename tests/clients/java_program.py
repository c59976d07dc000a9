"""Java programs, such as the one under java/: compiled with their libraries, ready to run.

A program is compiled once for each content of its sources, and the classes stay in the cache beside its libraries.
"""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path

from tests.clients.presence import need_command
from tests.clients.programs import CACHE, alone, digest_of, fetched

HERE = Path(__file__).parent / "java"


def java_command(program: Path = HERE, more: Sequence[Path] = ()) -> list[str]:
    """Compile the program in a directory, with more sources; the command that runs it, without the name of the main
    class.
    """
    java = need_command("java", "the Java client")
    maven = need_command("mvn", "the Java client")
    command = [maven, "-q", "-B", "dependency:copy-dependencies", "-DoutputDirectory=lib"]
    libraries = f"{fetched('java', [program / 'pom.xml'], command)}/lib/*"
    path = f"{_compiled([*sorted(program.glob('*.java')), *more], libraries)}{os.pathsep}{libraries}"
    # Two compiled tiers cost more than they bring in a run of seconds.
    return [java, "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xmx256m", "-cp", path]


def _compiled(sources: Sequence[Path], libraries: str) -> Path:
    """The directory of the classes of some sources."""
    compiler = need_command("javac", "the Java client")
    classes = CACHE / f"java-classes-{digest_of(sources)}-{Path(libraries).parent.parent.name}"
    with alone(classes.name):
        if not classes.exists():
            with tempfile.TemporaryDirectory(dir=CACHE) as scratch:
                made = Path(scratch) / "classes"
                words = [compiler, "-Xlint:all", "-Werror", "-cp", libraries, "-d", made, *sources]
                subprocess.run(words, check=True)
                made.rename(classes)
    return classes

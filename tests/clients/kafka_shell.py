"""Apache Kafka's own programs (kafka-acls, kafka-configs, ...), with their libraries from the Maven registry.

Kafka's shell scripts start a class with all jars of the distribution on the class path; so does this module. The first
program leaves an archive of the classes that it loaded; with it the next ones start in half of the processor time.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from tests.clients.presence import need_command
from tests.clients.programs import fetched

POM = Path(__file__).parent / "kafka_programs" / "pom.xml"
RUN_SECONDS_MAX = 120
CLASSES = {
    "kafka-acls": "org.apache.kafka.tools.AclCommand",
    "kafka-configs": "kafka.admin.ConfigCommand",
    "kafka-topics": "org.apache.kafka.tools.TopicCommand",
    "kafka-consumer-groups": "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand",
    "kafka-console-producer": "org.apache.kafka.tools.ConsoleProducer",
    "kafka-console-consumer": "org.apache.kafka.tools.consumer.ConsoleConsumer",
}
# The programs log with Log4j 2, whose default configuration writes errors to standard output.
QUIET = "-Dlog4j2.level=OFF"
SILENT = "-Xlog:disable"  # Java itself warns, on standard output, of classes that it cannot archive.


class Ended(NamedTuple):
    """How a program ended, and what it printed."""

    code: int
    output: str


class KafkaShell:
    """Runs Kafka's programs against a broker, with the settings of one client."""

    def __init__(self, bootstrap: str, settings: Mapping[str, str], home: Path) -> None:
        self._java = need_command("java", "Apache Kafka's programs")
        maven = need_command("mvn", "Apache Kafka's programs")
        command = [maven, "-q", "-B", "dependency:copy-dependencies", "-DoutputDirectory=lib"]
        fetched_at = fetched("kafka-programs", [POM], command)
        self._libraries = f"{fetched_at}/lib/*"
        self._archive = fetched_at / "classes.jsa"
        self._bootstrap = bootstrap
        self._settings = home / "client.properties"
        home.mkdir(parents=True, exist_ok=True)
        self._settings.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))

    def run(self, program: str, *words: str, text: str = "") -> Ended:
        """Run a program to its end, with a text on its standard input."""
        fresh = self._archive.with_suffix(f".{os.getpid()}")
        is_archived = self._archive.exists()
        archive = f"SharedArchiveFile={self._archive}" if is_archived else f"ArchiveClassesAtExit={fresh}"
        command = [self._java, "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xmx256m", f"-XX:{archive}", SILENT]
        command += [QUIET, "-cp", self._libraries, CLASSES[program], "--bootstrap-server", self._bootstrap]
        command += ["--command-config", str(self._settings), *words]
        done = subprocess.run(command, input=text, capture_output=True, text=True, timeout=RUN_SECONDS_MAX, check=False)
        if not is_archived and fresh.exists():
            fresh.replace(self._archive)
        return Ended(done.returncode, done.stdout + done.stderr)

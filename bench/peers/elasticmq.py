"""ElasticMQ's server on loopback, from its own artefacts on Maven Central.

`with ElasticMq() as server: server.address`, or `python -m bench.peers.elasticmq` from the root of the repository. By
default it keeps messages in memory, as it ships. With `stored` it writes them to its own H2 database, the only
durability it offers. The jars are fetched once with `mvn` into `.cache/`; Java and Maven are expected on the machine.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
from pathlib import Path

from bench.peers.node import BrokerFailed, Node, free_ports
from bench.peers.question import answers_list_queues
from bench.peers.stand import stand

VERSION = "1.7.1"
_CACHE = Path(__file__).resolve().parents[2] / ".cache" / f"elasticmq-{VERSION}"

_POM = f"""<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>longhall.bench</groupId>
  <artifactId>elasticmq-peer</artifactId>
  <version>1</version>
  <packaging>pom</packaging>
  <dependencies>
    <dependency>
      <groupId>org.elasticmq</groupId>
      <artifactId>elasticmq-server_2.13</artifactId>
      <version>{VERSION}</version>
    </dependency>
  </dependencies>
</project>
"""

_LOGGING = """<configuration>
  <appender name="out" class="ch.qos.logback.core.ConsoleAppender">
    <encoder><pattern>%d %p %c %m%n</pattern></encoder>
  </appender>
  <root level="WARN"><appender-ref ref="out"/></root>
</configuration>
"""

_STORED = """
messages-storage {
  enabled = true
  driver-class-name = "org.h2.Driver"
  uri = "jdbc:h2:%s/messages"
  username = ""
  password = ""
  prune-data-on-init = false
}
"""


def missing_tools() -> list[str]:
    """The tools that this peer needs and the machine lacks."""
    needed = ["java"] if _jars_present() else ["java", "mvn"]
    return [tool for tool in needed if shutil.which(tool) is None]


def fetch_jars() -> Path:
    """The directory of the server's jars, filled from Maven Central the first time."""
    libraries = _CACHE / "libs"
    if _jars_present():
        return libraries
    _CACHE.mkdir(parents=True, exist_ok=True)
    (_CACHE / "pom.xml").write_text(_POM)
    command = ["mvn", "-q", "-B", "-f", str(_CACHE / "pom.xml"), "dependency:copy-dependencies"]
    done = subprocess.run(
        [*command, "-DincludeScope=runtime", f"-DoutputDirectory={libraries}"],
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        raise BrokerFailed(f"mvn could not fetch ElasticMQ {VERSION}:\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
    (_CACHE / "complete").touch()
    return libraries


class ElasticMq(Node):
    """One ElasticMQ server with the JVM's own defaults, as its start script has them."""

    def __init__(self, *, stored: bool = False, directory: Path | None = None) -> None:
        super().__init__(name="elasticmq-stored" if stored else "elasticmq", directory=directory)
        self._stored = stored
        (self._port,) = free_ports(1)

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self._port}"

    def listening(self) -> bool:
        return True

    def answers(self) -> bool:
        return answers_list_queues(self.address)

    def prepare(self) -> None:
        fetch_jars()
        (self.directory / "logback.xml").write_text(_LOGGING)
        (self.directory / "server.conf").write_text(self._settings())

    def command(self) -> list[str]:
        files = [
            f"-Dconfig.file={self.directory}/server.conf",
            f"-Dlogback.configurationFile={self.directory}/logback.xml",
        ]
        return ["java", *files, "-cp", f"{fetch_jars()}/*", "org.elasticmq.server.Main"]

    def _settings(self) -> str:
        door = (
            f'rest-sqs {{ enabled = true, bind-hostname = "127.0.0.1", bind-port = {self._port}, sqs-limits = strict }}'
        )
        place = f'node-address {{ protocol = http, host = "127.0.0.1", port = {self._port}, context-path = "" }}'
        # Otherwise it logs a line for every signed request, since its parser does not know AWS's Authorization.
        quiet = "pekko.http.server.parsing.illegal-header-warnings = off"
        stored = _STORED % self.directory if self._stored else ""
        return "\n".join([quiet, place, door, "rest-stats { enabled = false }", stored])


def _jars_present() -> bool:
    return (_CACHE / "complete").exists()


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.peers.elasticmq", description=f"Run ElasticMQ {VERSION}.")
    parser.add_argument("--stored", action="store_true", help="keep messages in its H2 database")
    given = parser.parse_args()
    stand(lambda: ElasticMq(stored=given.stored))


if __name__ == "__main__":
    main()

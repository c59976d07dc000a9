"""Apache Kafka 4 as one KRaft node on loopback, or one of several, from its own artefacts on Maven Central.

`with ApacheKafka() as broker: broker.address`, or `python -m bench.peers.kafka` from the root of the repository. The
broker has the defaults of its own distribution: the settings of its `server.properties`, the heap and the collector's
flags of `kafka-server-start.sh`; only deleted topics' files go at once. With `flush_every_message` it syncs before it
acknowledges. The jars are fetched once with `mvn` into `.cache/`; Java 17 and Maven are expected on the machine.
"""

from __future__ import annotations

import argparse
import shutil
import signal
import subprocess
import uuid
from base64 import urlsafe_b64encode
from collections.abc import Mapping, Sequence
from pathlib import Path
from threading import Event

from bench.peers.node import BrokerFailed, Node, free_ports

VERSION = "4.3.1"
LOG4J_VERSION = "2.25.3"
_CACHE = Path(__file__).resolve().parents[2] / ".cache" / f"kafka-{VERSION}"

_POM = f"""<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>longhall.bench</groupId>
  <artifactId>kafka-peer</artifactId>
  <version>1</version>
  <packaging>pom</packaging>
  <dependencies>
    <dependency>
      <groupId>org.apache.kafka</groupId>
      <artifactId>kafka_2.13</artifactId>
      <version>{VERSION}</version>
    </dependency>
    <dependency>
      <groupId>org.apache.logging.log4j</groupId>
      <artifactId>log4j-slf4j-impl</artifactId>
      <version>{LOG4J_VERSION}</version>
    </dependency>
    <dependency>
      <groupId>org.apache.logging.log4j</groupId>
      <artifactId>log4j-core</artifactId>
      <version>{LOG4J_VERSION}</version>
    </dependency>
  </dependencies>
</project>
"""

_LOGGING = """status = error
appender.out.type = Console
appender.out.name = out
appender.out.layout.type = PatternLayout
appender.out.layout.pattern = %d %p %c %m%n
rootLogger.level = warn
rootLogger.appenderRef.out.ref = out
"""

_JVM_FLAGS = (
    "-server",
    "-XX:+UseG1GC",
    "-XX:MaxGCPauseMillis=20",
    "-XX:InitiatingHeapOccupancyPercent=35",
    "-XX:+ExplicitGCInvokesConcurrent",
    "-Djava.awt.headless=true",
    "-Dcom.sun.management.jmxremote",
    "-Dcom.sun.management.jmxremote.authenticate=false",
    "-Dcom.sun.management.jmxremote.ssl=false",
)


def missing_tools() -> list[str]:
    """The tools that this peer needs and the machine lacks."""
    needed = ["java"] if _jars_present() else ["java", "mvn"]
    return [tool for tool in needed if shutil.which(tool) is None]


def fetch_jars() -> Path:
    """The directory of the broker's jars, filled from Maven Central the first time."""
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
        raise BrokerFailed(f"mvn could not fetch Apache Kafka {VERSION}:\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
    (_CACHE / "complete").touch()
    return libraries


class Place:
    """One node's number and ports, known to the others before any of them starts."""

    def __init__(self, node_id: int) -> None:
        self.node_id = node_id
        self.broker_port, self.controller_port = free_ports(2)

    @property
    def voter(self) -> str:
        return f"{self.node_id}@127.0.0.1:{self.controller_port}"


class ApacheKafka(Node):
    """One Apache Kafka node, broker and controller in one process. `company` are the places of a cluster's nodes, this
    one's first; all of them are given the same `cluster_id`.
    """

    def __init__(
        self,
        *,
        flush_every_message: bool = False,
        settings: Mapping[str, str] | None = None,
        heap: str = "1G",
        directory: Path | None = None,
        company: Sequence[Place] = (),
        cluster_id: str = "",
    ) -> None:
        super().__init__(name="kafka-flush" if flush_every_message else "kafka", directory=directory)
        self._heap = heap
        self._place = company[0] if company else Place(1)
        self._voters = ",".join(sorted(place.voter for place in company))
        self._cluster_id = cluster_id or new_cluster_id()
        self._broker_port, self._controller_port = self._place.broker_port, self._place.controller_port
        self._settings = dict(settings or {})
        if flush_every_message:
            self._settings["log.flush.interval.messages"] = "1"

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self._broker_port}"

    def listening(self) -> bool:
        return True

    def prepare(self) -> None:
        libraries = fetch_jars()
        (self.directory / "log4j2.properties").write_text(_LOGGING)
        lines = [f"{key}={value}" for key, value in self._properties().items()]
        self._properties_path().write_text("\n".join(lines) + "\n")
        if (self.directory / "data" / "meta.properties").exists():
            return
        command = ["java", "-Xmx256M", "-XX:TieredStopAtLevel=1", *self._logging_flags(), "-cp", f"{libraries}/*"]
        alone = [] if self._voters else ["--standalone"]
        arguments = ["format", *alone, f"--cluster-id={self._cluster_id}", "-c", str(self._properties_path())]
        done = subprocess.run(
            [*command, "kafka.tools.StorageTool", *arguments], capture_output=True, text=True, check=False
        )
        if done.returncode != 0:
            raise BrokerFailed(f"Apache Kafka's storage could not be formatted:\n{done.stdout}{done.stderr}")

    def command(self) -> list[str]:
        collector_log = f"-Xlog:gc*:file={self.directory}/gc.log:time,tags:filecount=10,filesize=100M"
        heap = [f"-Xmx{self._heap}", f"-Xms{self._heap}"]
        flags = [*heap, *_JVM_FLAGS, collector_log, *self._logging_flags()]
        return ["java", *flags, "-cp", f"{fetch_jars()}/*", "kafka.Kafka", str(self._properties_path())]

    def _properties_path(self) -> Path:
        return self.directory / "server.properties"

    def _logging_flags(self) -> list[str]:
        return [f"-Dlog4j2.configurationFile={self.directory}/log4j2.properties"]

    def _properties(self) -> dict[str, str]:
        """The settings of the distribution's own file for one node, with free ports and a temporary directory."""
        quorum = {"controller.quorum.bootstrap.servers": f"127.0.0.1:{self._controller_port}"}
        if self._voters:
            quorum = {"controller.quorum.voters": self._voters}
        return {
            "process.roles": "broker,controller",
            "node.id": str(self._place.node_id),
            **quorum,
            "listeners": f"PLAINTEXT://{self.address},CONTROLLER://127.0.0.1:{self._controller_port}",
            "advertised.listeners": f"PLAINTEXT://{self.address},CONTROLLER://127.0.0.1:{self._controller_port}",
            "inter.broker.listener.name": "PLAINTEXT",
            "controller.listener.names": "CONTROLLER",
            "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
            "log.dirs": str(self.directory / "data"),
            # Not its default: a deleted topic's files are removed soon, not a minute later in the middle of another
            # measurement.
            "log.segment.delete.delay.ms": "1000",
            "num.network.threads": "3",
            "num.io.threads": "8",
            "socket.send.buffer.bytes": "102400",
            "socket.receive.buffer.bytes": "102400",
            "socket.request.max.bytes": "104857600",
            "num.partitions": "1",
            "num.recovery.threads.per.data.dir": "2",
            "offsets.topic.replication.factor": "1",
            "share.coordinator.state.topic.replication.factor": "1",
            "share.coordinator.state.topic.min.isr": "1",
            "transaction.state.log.replication.factor": "1",
            "transaction.state.log.min.isr": "1",
            "log.retention.hours": "168",
            "log.segment.bytes": "1073741824",
            "log.retention.check.interval.ms": "300000",
            **self._settings,
        }


def new_cluster_id() -> str:
    return urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")


def _jars_present() -> bool:
    return (_CACHE / "complete").exists()


def main() -> None:
    """Run one broker until interrupted."""
    parser = argparse.ArgumentParser(prog="python -m bench.peers.kafka", description=f"Run Apache Kafka {VERSION}.")
    parser.add_argument("--flush", action="store_true", help="sync every message before it is acknowledged")
    parser.add_argument("--heap", default="1G", help="heap of the JVM (default: 1G, as its own start script)")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="a setting of the broker")
    parser.add_argument("--directory", type=Path, help="keep the data here (default: a temporary directory)")
    given = parser.parse_args()
    settings = dict(each.split("=", 1) for each in given.set)
    over = Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: over.set())
    with ApacheKafka(
        flush_every_message=given.flush, settings=settings, heap=given.heap, directory=given.directory
    ) as broker:
        print(broker.address, flush=True)
        over.wait()


if __name__ == "__main__":
    main()

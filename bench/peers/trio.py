"""Three nodes with three replicas: Longhall with its ZooKeeper, and Apache Kafka in KRaft mode.

Both are started as users would: `longhall cluster up --nodes 3`, and three Kafka nodes that are broker and controller
at once. A trio knows the process of each node, so that the work of the leader and of followers is measured separately.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import tempfile
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from bench.load import topics
from bench.peers.kafka import ApacheKafka, Place, new_cluster_id
from bench.peers.longhall import COMMAND
from bench.peers.node import BrokerFailed, Node, leave_when_told
from longhall.broker.placement import WING_STEP

NODES = 3
IN_SYNC_MIN = 2


class Trio(ABC):
    """Three nodes of one broker.

    `nodes` are the processes by node number; `beside` is the common ancestor of all processes, if there is one.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.nodes: dict[int, int] = {}
        self.beside = 0
        self.directories: list[Path] = []
        self.start_seconds = 0.0
        self._stack = ExitStack()

    @property
    @abstractmethod
    def address(self) -> str:
        """The addresses of all nodes, separated by commas."""

    @abstractmethod
    def start(self) -> None: ...

    def __enter__(self) -> Self:
        leave_when_told()
        began = time.monotonic()
        with self._stack:
            self.start()
            self._stack = self._stack.pop_all()
        self.start_seconds = time.monotonic() - began
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()

    def leader(self, topic: str) -> int:
        """The number of the node that leads a topic of one partition, in whatever replication group it is."""
        found = topics.leader(self.address, topic) % WING_STEP
        if found not in self.nodes:
            raise BrokerFailed(f"{self.name}: nobody leads {topic}")
        return found

    def kill(self, node: int) -> None:
        """Kill a node, as a crash would."""
        os.kill(self.nodes[node], signal.SIGKILL)


class KafkaTrio(Trio):
    """Three Kafka nodes with the defaults of the distribution, except for the settings of three replicas."""

    def __init__(self, *, flush_every_message: bool = False) -> None:
        super().__init__("kafka-flush" if flush_every_message else "kafka")
        self._flush = flush_every_message
        self._brokers: list[ApacheKafka] = []

    @property
    def address(self) -> str:
        return ",".join(each.address for each in self._brokers)

    def start(self) -> None:
        places = [Place(number) for number in range(1, NODES + 1)]
        cluster_id = new_cluster_id()
        for at in range(NODES):
            broker = ApacheKafka(
                flush_every_message=self._flush,
                settings=_KAFKA_SETTINGS,
                company=places[at:] + places[:at],
                cluster_id=cluster_id,
                directory=Path(tempfile.mkdtemp(prefix=f"bench-{self.name}-{at + 1}-")),
            )
            self._stack.callback(shutil.rmtree, broker.directory, ignore_errors=True)
            broker.prepare()
            self._brokers.append(broker)
            self.directories.append(broker.directory)
        for broker in self._brokers:
            broker.launch()
            self._stack.callback(broker.kill)
        for at, broker in enumerate(self._brokers):
            broker.await_answer()
            self.nodes[at + 1] = broker.pid


_KAFKA_SETTINGS = {
    "default.replication.factor": str(NODES),
    "min.insync.replicas": str(IN_SYNC_MIN),
    "offsets.topic.replication.factor": str(NODES),
    "transaction.state.log.replication.factor": str(NODES),
    "transaction.state.log.min.isr": str(IN_SYNC_MIN),
    # The deleted topics of one line must not fill the disk during the next.
    "log.segment.delete.delay.ms": "1000",
}


class LonghallTrio(Trio):
    """`longhall cluster up` and all its processes."""

    def __init__(self, *, arguments: Sequence[str] = (), name: str = "longhall", program: Path = COMMAND) -> None:
        super().__init__(name)
        self._arguments = list(arguments)
        self._program = program
        self._ready: dict[str, Any] = {}

    @property
    def address(self) -> str:
        return ",".join(str(each["kafka"]) for each in self._ready["nodes"])

    def door(self, node: int, name: str) -> str:
        """The address of a node's `sqs` or `http` door."""
        return str(next(each for each in self._ready["nodes"] if each["node"] == node)[name])

    def start(self) -> None:
        command = _Up(self._program, self._arguments)
        self._stack.enter_context(command)
        self._ready = command.ready
        self.nodes = {int(each["node"]): int(each["pid"]) for each in self._ready["nodes"]}
        self.directories = [command.directory]
        self.beside = command.pid


class _Up(Node):
    """The process of `cluster up`. It reports when it is ready, and then its nodes are in sync."""

    def __init__(self, program: Path, arguments: Sequence[str]) -> None:
        super().__init__(name="longhall")
        self._program = program
        self.ready: dict[str, Any] = {}
        self._arguments = arguments

    @property
    def address(self) -> str:
        return ""

    def prepare(self) -> None:
        pass

    def command(self) -> list[str]:
        where = ["--data", str(self.directory / "cluster"), "--ready-file", str(self._ready_path())]
        return [str(self._program), "cluster", "up", "--nodes", str(NODES), "--free-ports", *where, *self._arguments]

    def listening(self) -> bool:
        try:
            self.ready = json.loads(self._ready_path().read_text())
        except (FileNotFoundError, json.JSONDecodeError):
            return False
        return True

    def answers(self) -> bool:
        return bool(self.ready)

    def _leave(self) -> None:
        self.stop()  # A clean stop, because its child processes have sessions of their own.
        super()._leave()

    def _ready_path(self) -> Path:
        return self.directory / "ready.json"


TRIOS: dict[str, Callable[[], Trio]] = {
    "longhall": LonghallTrio,
    "kafka": KafkaTrio,
    "kafka-flush": lambda: KafkaTrio(flush_every_message=True),
}

"""The node of client tests: a single one, several workers, or the nodes of a cluster in turn.

With `LONGHALL_TEST_WORKERS=2` every node of these tests is started with `--workers 2`. Kafka clients then get the
address of the last worker, which leads nothing.

With `LONGHALL_TEST_CLUSTER=1` every node of these tests is three: a `longhall cluster up` with a ZooKeeper of its own.
Each test gets the address of another one, leader or not, for each door. What tests create is spread over replication
groups, as by default; with `LONGHALL_TEST_PLACEMENT=hall` it is in the hall.
"""

from __future__ import annotations

import itertools
import os
import signal
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

import pytest

from soak.node import COMMAND, READY_SECONDS_MAX, Node

WORKERS = int(os.environ.get("LONGHALL_TEST_WORKERS", "1"))
CLUSTER = os.environ.get("LONGHALL_TEST_CLUSTER") == "1"
PLACEMENT = os.environ.get("LONGHALL_TEST_PLACEMENT", "spread")
HOSTS = 3
DOWN_SECONDS_MAX = 60.0
KIND = f"{HOSTS} nodes of a cluster ({PLACEMENT})" if CLUSTER else f"{WORKERS} workers" if WORKERS > 1 else "a node"


def each_test(fixture_name: str, config: pytest.Config) -> Literal["function", "session"]:
    """The scope of an address: in a cluster each test has one of its own."""
    return "function" if CLUSTER else "session"


class Served(Node):
    """A node with the workers that `LONGHALL_TEST_WORKERS` names; Kafka clients use the last worker."""

    def __init__(self, data: Path, *, options: Sequence[str] = (), workers: int = WORKERS) -> None:
        super().__init__(data, options=[*options, *(["--workers", str(workers)] if workers > 1 else [])])
        self._workers = workers

    def start(self) -> None:
        if self._workers > 1:
            self._doors["kafka"] = "127.0.0.1:0"  # The ports that follow one which was free may be taken.
        self.launch()
        self.wait_ready(READY_SECONDS_MAX * self._workers)

    @property
    def bootstrap(self) -> str:
        workers = self.ready.get("workers")
        return str(workers[-1]["kafka"]) if isinstance(workers, list) else super().bootstrap


class Hosts(Node):
    """A whole cluster in the place of a node. Each request for the address of a door returns that of the next host."""

    def __init__(self, data: Path, *, options: Sequence[str] = ()) -> None:
        super().__init__(data, options=options)
        self._turns = itertools.count()

    def command(self) -> list[str]:
        words = ["cluster", "up", "--nodes", str(HOSTS), "--free-ports", "--data", str(self.data)]
        if PLACEMENT != "spread":
            words += ["--set", f"default_placement={PLACEMENT}"]
        settings = {"--credentials": "credentials=", "--keys": "keys=", "--set": ""}
        for option, value in zip(self.options[::2], self.options[1::2], strict=True):
            words += ["--set", settings[option] + value]
        return [*COMMAND, *words, "--ready-file", str(self.ready_file)]

    def start(self) -> None:
        self.launch()
        self.wait_ready(READY_SECONDS_MAX * (HOSTS + 1))

    def kill(self) -> None:
        """Stop the cluster, which has processes of its own and stops them."""
        if self._process is not None and self._process.poll() is None:
            self._process.send_signal(signal.SIGTERM)
            try:
                self._process.wait(DOWN_SECONDS_MAX)
            except subprocess.TimeoutExpired:
                super().kill()

    @property
    def bootstrap(self) -> str:
        return str(self._next()["kafka"])

    @property
    def sqs(self) -> str:
        return str(self._next()["sqs"])

    @property
    def amqp(self) -> str:
        return str(self._next()["amqp"])

    @property
    def stomp(self) -> str:
        return str(self._next()["stomp"])

    @property
    def stomp_websocket(self) -> str:
        return str(self._next()["stomp_websocket"])

    @property
    def management(self) -> str:
        return str(self._next()["management"])

    @property
    def prometheus(self) -> str:
        return str(self._next()["prometheus"])

    @property
    def http(self) -> str:
        return str(self._next()["http"])

    def log_tail(self) -> str:
        logs = [self.log_file, *sorted(self.data.glob("node*.log"))]
        return "\n".join(f"--- {log.name}\n{log.read_text(errors='replace')[-3000:]}" for log in logs)

    def _next(self) -> dict[str, Any]:
        nodes = self.ready["nodes"]
        assert isinstance(nodes, list)
        found: dict[str, Any] = nodes[next(self._turns) % len(nodes)]
        return found


def served(data: Path, *, options: Sequence[str] = ()) -> Node:
    """The node that these tests use, not started yet."""
    return Hosts(data, options=options) if CLUSTER else Served(data, options=options)

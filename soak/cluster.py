"""Three real nodes around a real ZooKeeper, to be hurt: started, killed, paused, started again; asked how they do."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

from longhall.cli.cluster.status import ask
from longhall.cli.exits import CommandError
from longhall.console.company import ClusterView
from longhall.coordination.ensemble import Ensemble
from soak.node import Node

WAIT_SECONDS: Final = 60.0
NODES: Final = (1, 2, 3)


class Cluster:
    """See the module. Clients get the addresses of all nodes, which stay the same over restarts."""

    def __init__(
        self, home: Path, *, session_ms: int = 6000, zookeeper: Ensemble | None = None, path: str = ""
    ) -> None:
        self.home = home
        self.zookeeper = zookeeper or Ensemble(home / "zookeeper", durable=False)
        self._own = zookeeper is None
        self._path = path
        self._session_ms = session_ms
        self.nodes: dict[int, Node] = {}

    def start(self) -> None:
        if self._own:
            self.zookeeper.start()
        for number in NODES:
            self.nodes[number] = self.make(number)
            self.nodes[number].launch()
        for node in self.nodes.values():
            node.wait_ready(WAIT_SECONDS)
        self.wait_in_sync()

    def make(self, number: int, data: Path | None = None) -> Node:
        """A node of this cluster, not started yet."""
        options = ["--coordinator", self.zookeeper.url + self._path, "--node-id", str(number)]
        options += ["--set", f"session_timeout_ms={self._session_ms}"]
        return Node(data or self.home / f"node{number}", options=options, home=self.home)

    def stop(self) -> None:
        """Everything, at once."""
        for node in self.nodes.values():
            node.kill()
        if self._own:
            self.zookeeper.stop()

    # What clients need

    @property
    def bootstrap(self) -> str:
        return ",".join(node.bootstrap for node in self.nodes.values())

    # How it does

    def view(self, besides: int = 0) -> ClusterView | None:
        """What the leader says; None while nobody leads. A node that sleeps is better not asked."""
        for number, node in self.nodes.items():
            if node.running and number != besides:
                try:
                    view = ask(node.http)
                except CommandError:
                    continue
                if view.serving:
                    return view
        return None

    def leader(self, besides: int = 0) -> int:
        """The node that leads, as soon as one does."""
        found: list[int] = []

        def led() -> bool:
            view = self.view(besides)
            if view is not None:
                found.append(view.node)
            return bool(found)

        wait_until(led, "a node leads")
        return found[-1]

    def followers(self) -> list[int]:
        leader = self.leader()
        return [number for number in self.nodes if number != leader]

    def wait_in_sync(self, count: int = len(NODES)) -> None:
        """Until so many have everything."""

        def in_sync() -> bool:
            view = self.view()
            return view is not None and sum(host.in_sync and host.alive for host in view.hosts) >= count

        wait_until(in_sync, f"{count} nodes are in sync", self.log_tails)

    def log_tails(self) -> str:
        """The ends of all logs, for whoever has to explain a failure."""
        return "\n".join(f"--- node {number}\n{node.log_tail()}" for number, node in self.nodes.items())


def wait_until(holds: Callable[[], bool], what: str, explain: Callable[[], str] = str) -> None:
    """Ask again until it holds."""
    deadline = time.monotonic() + WAIT_SECONDS
    while not holds():
        assert time.monotonic() < deadline, f"not within {WAIT_SECONDS:.0f} s: {what}\n{explain()}"
        time.sleep(0.05)

"""Three real nodes around a real ZooKeeper, to be hurt: started, killed, paused, started again; asked how they do.

In a field (`soak.field`) each node is a host with an address, a network and a disk of its own, and so is ZooKeeper;
without one, everything is on the loopback.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import socket
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from longhall.cli.cluster.secret import SECRET_NAME, make_secret
from longhall.cli.cluster.status import ask
from longhall.cli.exits import CommandError
from longhall.console.cluster_view import ClusterView
from longhall.coordination.ensemble import Ensemble
from soak.field import LOOPBACK, Field, mount_memory
from soak.node import Node
from soak.wall import Wall, build

WAIT_SECONDS: Final = 120.0
NODES: Final = (1, 2, 3)
ZOOKEEPER: Final = "zookeeper"
DISK_BYTES: Final = 2 << 30
SCRUB_MS: Final = 20_000  # Beyond loopback nobody may ask for a pass without credentials.
READ_AGAIN: Final = "the cluster secret was read again"
DOORS: Final = {"kafka": 9092, "sqs": 9324, "http": 8080, "peers": 7092}


class Cluster:
    """See the module. Clients get the addresses of all nodes, which stay the same over restarts."""

    def __init__(
        self,
        home: Path,
        *,
        session_ms: int = 6000,
        zookeeper: Ensemble | None = None,
        path: str = "",
        field: Field | None = None,
        servers: int = 1,
        secret: bool = True,
        settings: Mapping[str, str] | None = None,
    ) -> None:
        self.home = home
        self._has_secret = secret
        self._settings = dict(settings or {})  # Of every node, beside those that make it a member.
        self.field = field
        self.session_ms = session_ms
        self.asleep: set[int] = set()  # Nodes that are better not asked.
        self.nodes: dict[int, Node] = {}
        self.walls: dict[int, Wall] = {}
        host = {} if field is None else {"host": field.address(ZOOKEEPER), "prefix": field.prefix(ZOOKEEPER)}
        self.zookeeper = zookeeper or Ensemble(home / "zookeeper", durable=False, servers=servers, **host)  # type: ignore[arg-type]
        self._own = zookeeper is None
        self._path = path
        self._doors: dict[int, dict[str, str]] = {}  # By node, where its doors have to stay where they are.
        if field is not None:
            library = build(home)
            for number in NODES:
                mount_memory(self.disk(number), DISK_BYTES)
                if library is not None:
                    self.walls[number] = Wall(library, home / f"wall{number}")

    def start(self, *, first: int = 0) -> None:
        """Start everything. `first` is the node that brings the hall, if it has to be a certain one."""
        if self._own:
            self.zookeeper.start()
        for number in sorted(NODES, key=lambda one: one != first):
            self.nodes[number] = self.make(number)
            self.nodes[number].launch()
            if number == first:
                self.nodes[number].wait_ready(WAIT_SECONDS)
        for node in self.nodes.values():
            node.wait_ready(WAIT_SECONDS)
        self.wait_in_sync()

    def make(self, number: int, *, alone: bool = False) -> Node:
        """A node of this cluster, not started yet; or one that is `alone` with its directory and knows no cluster."""
        options = ["--coordinator", self.zookeeper.url + self._path, "--node-id", str(number)]
        options += ["--set", f"session_timeout_ms={self.session_ms}"]
        if self._has_secret:
            options += ["--cluster-secret", str(self.secret_file(number))]
        options += [word for name, value in self._settings.items() for word in ("--set", f"{name}={value}")]
        if alone:
            options = []
        if self.field is None:
            return Node(self.home / f"node{number}", options=options, home=self.home, doors=self._doors.get(number))
        host = name_of(number)
        doors = {door: f"{self.field.address(host)}:{port}" for door, port in DOORS.items()}
        return Node(
            self.disk(number) / f"node{number}",
            options=[*options, "--insecure", "--set", f"scrub_interval_ms={SCRUB_MS}"],
            home=self.home,
            doors=doors,
            prefix=self.field.prefix(host),
            environment=self.walls[number].environment if number in self.walls else None,
        )

    def secret_file(self, number: int) -> Path:
        """The file with the cluster's secret of one node, as if each had a machine of its own."""
        whole, own = self.home / SECRET_NAME, self.home / f"{SECRET_NAME}{number}"
        if not whole.exists():
            make_secret(whole)
        if not own.exists():
            shutil.copy(whole, own)
        return own

    def write_secrets(self, number: int, secrets: list[str], *, tell: bool = False) -> None:
        """Put others into the file of a node that runs, and wait until it has read them. With `tell` it is told so by
        SIGHUP; else it looks by itself.
        """
        path, node = self.secret_file(number), self.nodes[number]
        reads = node.log_text().count(READ_AGAIN)
        beside = path.with_suffix(".new")
        beside.touch(mode=0o600)
        beside.write_text("\n".join(secrets) + "\n")
        os.replace(beside, path)
        if tell:
            os.kill(node.pid, signal.SIGHUP)
        wait_until(lambda: node.log_text().count(READ_AGAIN) > reads, f"node {number} reads its secret again")

    def keep_doors(self) -> None:
        """Without a field: free ports, the same for all lives of a node. Clients go on at the address they know."""
        with contextlib.ExitStack() as held:
            for number in NODES:
                for door in ("kafka", "sqs", "http"):
                    probe = held.enter_context(socket.socket())
                    probe.bind((LOOPBACK, 0))
                    self._doors.setdefault(number, {})[door] = f"{LOOPBACK}:{probe.getsockname()[1]}"

    def disk(self, number: int) -> Path:
        """Where the disk of a host in a field is."""
        return self.home / f"disk{number}"

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
        """What the leader says; None while nobody leads. Of two that believe to lead, the one of the newer epoch."""
        views: list[ClusterView] = []
        for number, node in self.nodes.items():
            if node.running and number != besides and number not in self.asleep:
                try:
                    views.append(ask(node.http))
                except CommandError:
                    continue
        return max((view for view in views if view.serving), key=lambda view: view.epoch, default=None)

    def leader(self, besides: int = 0) -> int:
        """The node that leads, as soon as one does."""
        found: list[int] = []

        def led() -> bool:
            view = self.view(besides)
            if view is not None:
                found.append(view.node)
            return bool(found)

        wait_until(led, "a node leads", self.log_tails)
        return found[-1]

    def manager(self) -> int:
        """The node that manages; 0 for none."""
        view = self.view()
        return next((host.node for host in view.hosts if host.manages), 0) if view is not None else 0

    def followers(self) -> list[int]:
        leader = self.leader()
        return [number for number in self.nodes if number != leader]

    def wait_in_sync(self, count: int = len(NODES)) -> None:
        """Until so many have everything."""

        def in_sync() -> bool:
            view = self.view()
            if view is None or not all(wing.leader and len(wing.in_sync) >= count for wing in view.wings):
                return False
            return sum(host.in_sync and host.alive is True for host in view.hosts) >= count

        wait_until(in_sync, f"{count} nodes are in sync", self.log_tails)

    def log_tails(self) -> str:
        """The ends of all logs, for whoever has to explain a failure."""
        return "\n".join(f"--- node {number}\n{node.log_tail()}" for number, node in self.nodes.items())


def name_of(number: int) -> str:
    """A host of a field."""
    return f"node{number}"


def wait_until(holds: Callable[[], bool], what: str, explain: Callable[[], str] = str) -> None:
    """Ask again until it holds. A time in which this very process was stopped does not count for more than a second."""
    waited, before = 0.0, time.monotonic()
    while not holds():
        assert waited < WAIT_SECONDS, f"not within {WAIT_SECONDS:.0f} s: {what}\n{explain()}"
        time.sleep(0.05)
        now = time.monotonic()
        waited, before = waited + min(now - before, 1.0), now

"""Three real nodes and a real ZooKeeper for fault injection: started, killed, paused, restarted, and asked for their
status.

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
from longhall.node.addresses import DOORS as NODE_DOORS
from soak.field import LOOPBACK, Field, Segment, mount_memory
from soak.node import Node
from soak.wall import Wall, build

WAIT_SECONDS: Final = 120.0
NODES: Final = (1, 2, 3)
ZOOKEEPER: Final = "zookeeper"
DISK_BYTES: Final = 2 << 30
SCRUB_MS: Final = 20_000  # Beyond loopback a scrub pass cannot be requested without credentials.
READ_AGAIN: Final = "the cluster secret was read again"
DOORS: Final = {
    "kafka": 9092,
    "sqs": 9324,
    "amqp": 5672,
    "stomp": 61613,
    "stomp_websocket": 15674,
    "management": 15672,
    "prometheus": 15692,
    "http": 8080,
    "peers": 7092,
}


class Cluster:
    """The nodes and the ZooKeeper of one cluster. Clients get the addresses of all nodes, which stay the same over
    restarts.
    """

    def __init__(
        self,
        home: Path,
        *,
        session_ms: int = 6000,
        zookeeper: Ensemble | None = None,
        path: str = "",
        field: Field | Segment | None = None,
        servers: int = 1,
        secret: bool = True,
        settings: Mapping[str, str] | None = None,
    ) -> None:
        self.home = home
        self._has_secret = secret
        # Of every node, beside those of its membership. What is created without a placement is in the hall, whose
        # leader the faults of most tests are for.
        self._settings = {"default_placement": "hall", **(settings or {})}
        self.field = field
        self.session_ms = session_ms
        self.asleep: set[int] = set()  # Paused nodes, which are not asked for their status.
        self.nodes: dict[int, Node] = {}
        self.walls: dict[int, Wall] = {}
        host = {} if field is None else {"host": field.address(ZOOKEEPER), "prefix": field.prefix(ZOOKEEPER)}
        self.zookeeper = zookeeper or Ensemble(home / "zookeeper", durable=False, servers=servers, **host)  # type: ignore[arg-type]
        self._own = zookeeper is None
        self._path = path
        # By node: the addresses of its doors, if these have to stay the same.
        self._doors: dict[int, dict[str, str]] = {}
        if field is not None:
            library = build(home)
            for number in NODES:
                mount_memory(self.disk(number), DISK_BYTES)
                if library is not None:
                    self.walls[number] = Wall(library, home / f"wall{number}")

    def start(self, *, first: int = 0) -> None:
        """Start all nodes. `first` is the node that creates the hall, if it has to be a certain one."""
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
        """A node of this cluster, not started; with `alone` it uses its directory without the cluster settings."""
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
        """The secret file of one node, as if each node had a machine of its own."""
        whole, own = self.home / SECRET_NAME, self.home / f"{SECRET_NAME}{number}"
        if not whole.exists():
            make_secret(whole)
        if not own.exists():
            shutil.copy(whole, own)
        return own

    def write_secrets(self, number: int, secrets: list[str], *, tell: bool = False) -> None:
        """Replace the secrets of a running node, and wait until it has read them.

        With `tell` the node gets SIGHUP; otherwise it notices the change by itself.
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
        """Without a field: choose free ports that every start of a node uses. Clients keep the addresses that they
        know.
        """
        with contextlib.ExitStack() as held:
            for number in NODES:
                for door in NODE_DOORS:
                    probe = held.enter_context(socket.socket())
                    probe.bind((LOOPBACK, 0))
                    self._doors.setdefault(number, {})[door] = f"{LOOPBACK}:{probe.getsockname()[1]}"

    def disk(self, number: int) -> Path:
        """The mount point of a host's disk in a field."""
        return self.home / f"disk{number}"

    def stop(self) -> None:
        """Stop all processes at once."""
        for node in self.nodes.values():
            node.kill()
        if self._own:
            self.zookeeper.stop()

    # For clients.

    @property
    def bootstrap(self) -> str:
        return ",".join(node.bootstrap for node in self.nodes.values())

    # Status.

    def view(self, besides: int = 0) -> ClusterView | None:
        """The leader's view of the cluster; None while no node leads. Of two leaders, the one with the newer epoch."""
        views: list[ClusterView] = []
        for number, node in self.nodes.items():
            if node.running and number != besides and number not in self.asleep:
                try:
                    views.append(ask(node.http))
                except CommandError:
                    continue
        return max((view for view in views if view.serving), key=lambda view: view.epoch, default=None)

    def leader(self, besides: int = 0) -> int:
        """Wait for a leader and return its number."""
        found: list[int] = []

        def led() -> bool:
            view = self.view(besides)
            if view is not None:
                found.append(view.node)
            return bool(found)

        wait_until(led, "a node leads", self.log_tails)
        return found[-1]

    def manager(self) -> int:
        """The controller's number; 0 if there is none."""
        view = self.view()
        return next((host.node for host in view.hosts if host.manages), 0) if view is not None else 0

    def followers(self) -> list[int]:
        leader = self.leader()
        return [number for number in self.nodes if number != leader]

    def wait_in_sync(self, count: int = len(NODES)) -> None:
        """Wait until so many replicas are in sync."""

        def in_sync() -> bool:
            view = self.view()
            if view is None or not all(wing.leader and len(wing.in_sync) >= count for wing in view.wings):
                return False
            return sum(host.in_sync and host.alive is True for host in view.hosts) >= count

        wait_until(in_sync, f"{count} nodes are in sync", self.log_tails)

    def log_tails(self) -> str:
        """The ends of all logs, for failure messages."""
        return "\n".join(f"--- node {number}\n{node.log_tail()}" for number, node in self.nodes.items())


def name_of(number: int) -> str:
    """The name of a node's host in a field."""
    return f"node{number}"


def wait_until(holds: Callable[[], bool], what: str, explain: Callable[[], str] = str) -> None:
    """Wait until the condition holds. While this process itself is stopped, at most one second counts."""
    waited, before = 0.0, time.monotonic()
    while not holds():
        assert waited < WAIT_SECONDS, f"not within {WAIT_SECONDS:.0f} s: {what}\n{explain()}"
        time.sleep(0.05)
        now = time.monotonic()
        waited, before = waited + min(now - before, 1.0), now

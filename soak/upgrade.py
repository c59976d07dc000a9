"""A rolling upgrade of three real nodes under load: from the earlier version to the later one, back, and forward again.

The earlier version is this one with `feature_level_max=1`. Until the feature level is raised every node may go back;
afterwards a node of the earlier version is refused with one line that says why. Clients send all the time, and at the
end everything that was acknowledged must be readable.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Protocol

from longhall.cli.api_client import ApiClient
from longhall.cli.cluster.status import ask
from longhall.cli.exits import CommandError
from longhall.cli.profiles import HttpTarget
from longhall.node.addresses import DOORS
from longhall.service.administration import RaisedLevel
from soak.cluster import NODES, Cluster, wait_until
from soak.node import Node

OLD: Final = 1
NEW: Final = 2

Say = Callable[[str], None]


class Load(Protocol):
    """Clients that continue through every fault."""

    def wait_for_more(self) -> None:
        """Wait until every kind of client has had an acknowledgement from now on."""


class Upgrade:
    """The upgrade of a cluster that is made and not started."""

    def __init__(self, cluster: Cluster, say: Say = print) -> None:
        self.cluster = cluster
        self._say = say

    def begin(self) -> None:
        """Start all nodes as the earlier version."""
        for number in NODES:
            self.cluster.nodes[number] = self._make(number, OLD)
            self.cluster.nodes[number].launch()
        for node in self.cluster.nodes.values():
            node.wait_ready()
        self.cluster.wait_in_sync()

    def roll(self, load: Load) -> None:
        """Upgrade the nodes one by one, raise the level, and check that the earlier version is refused."""
        cluster = self.cluster
        assert self._levels() == (OLD, OLD)
        for number in NODES:
            self._restart(number, NEW)
            load.wait_for_more()
        assert self._levels() == (OLD, NEW)
        back = cluster.followers()[0]
        self._restart(back, OLD)  # A downgrade of one node,
        load.wait_for_more()
        assert self._levels() == (OLD, OLD)
        assert f"node {back} knows up to level {OLD}" in self._refusal(NEW)
        self._restart(back, NEW)  # and its upgrade again.
        done = self._upgrade(0, dry_run=True)
        assert (done.before, done.level) == (OLD, NEW)
        assert self._levels() == (OLD, NEW)
        done = self._upgrade(0)
        assert (done.before, done.level) == (OLD, NEW)
        wait_until(lambda: self._levels() == (NEW, NEW), "every node hears of the level", cluster.log_tails)
        load.wait_for_more()
        self._refused(cluster.followers()[0])
        load.wait_for_more()

    def _refused(self, number: int) -> None:
        """Check that a node of the earlier version cannot come back, and that the later one can."""
        cluster = self.cluster
        assert cluster.nodes[number].stop() == 0
        stray = self._make(number, OLD)
        stray.launch()
        assert stray.wait_end() == 1
        last = stray.log_tail().strip().splitlines()[-1]
        assert f"feature level {NEW}, and this version knows up to {OLD}" in last, last
        self._say(f"node {number} as the version before: {last}")
        cluster.nodes[number].start()
        cluster.wait_in_sync()

    def _restart(self, number: int, level: int) -> None:
        cluster = self.cluster
        assert cluster.nodes[number].stop() == 0
        before, node = cluster.nodes[number], self._make(number, level)
        for door in DOORS:
            node.options += [f"--{door.replace('_', '-')}", str(before.ready[door])]
        cluster.nodes[number] = node
        node.start()
        cluster.wait_in_sync()
        self._say(f"node {number} knows up to feature level {level}")

    def _make(self, number: int, level: int) -> Node:
        node = self.cluster.make(number)
        node.options += ["--set", f"feature_level_max={level}"]
        return node

    def _levels(self) -> tuple[int, int]:
        """The level in force and the possible level, as every node reports them."""
        found = {(view.level, view.level_possible) for view in map(ask, self._doors())}
        return found.pop() if len(found) == 1 else (0, 0)

    def _upgrade(self, level: int, *, dry_run: bool = False) -> RaisedLevel:
        """Through a node that does not lead: it asks the one that does."""
        follower = self.cluster.followers()[0]
        desk = ApiClient(HttpTarget(self.cluster.nodes[follower].http))
        return desk.ask("POST", "cluster/upgrade", RaisedLevel, {"level": level, "dry_run": dry_run})

    def _refusal(self, level: int) -> str:
        try:
            self._upgrade(level)
        except CommandError as refused:
            return str(refused)
        return ""

    def _doors(self) -> list[str]:
        return [node.http for node in self.cluster.nodes.values()]

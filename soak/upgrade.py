"""A rolling upgrade of three real nodes under load: from the earlier version to the later one, back, and forward again.

The earlier version is this one with `feature_level_max=1`, or the sources of an earlier build. Until the feature level
is raised every node may go back; afterwards a node of the earlier version is refused with one line that says why.
Clients send all the time, and at the end everything that was acknowledged must be readable.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Protocol, Self

from longhall.cli.api_client import ApiClient
from longhall.cli.cluster.status import ask
from longhall.cli.exits import CommandError
from longhall.cli.profiles import HttpTarget
from longhall.node.addresses import DOORS
from longhall.service.administration import RaisedLevel
from soak.cluster import NODES, Cluster, wait_until
from soak.node import Node

_NEWEST: Final = re.compile(r"^NEWEST: Final = (\d+)$", re.MULTILINE)

Say = Callable[[str], None]


@dataclass(frozen=True)
class Version:
    """What a node runs: this version up to a feature level, or the sources of another one."""

    level: int
    sources: Path | None = None

    @classmethod
    def at(cls, sources: Path) -> Self:
        """The version whose sources are in this directory (`src` of a checkout)."""
        found = _NEWEST.search((sources / "longhall" / "broker" / "feature_gates.py").read_text())
        assert found is not None, f"{sources} does not say its newest feature level"
        return cls(int(found[1]), sources)

    def apply(self, node: Node) -> Node:
        """Make a node that is not running start this version."""
        if self.sources is None:
            node.options += ["--set", f"feature_level_max={self.level}"]
        else:
            node.environment["PYTHONPATH"] = str(self.sources)
        return node


class Load(Protocol):
    """Clients that continue through every fault."""

    def wait_for_more(self) -> None:
        """Wait until every kind of client has had an acknowledgement from now on."""


class Upgrade:
    """The upgrade of a cluster that is made and not started."""

    def __init__(self, cluster: Cluster, before: Version, after: Version, say: Say = print) -> None:
        self.cluster = cluster
        self.before = before
        self.after = after
        self._say = say

    def begin(self) -> None:
        """Start all nodes as the earlier version."""
        for number in NODES:
            self.cluster.nodes[number] = self._make(number, self.before)
            self.cluster.nodes[number].launch()
        for node in self.cluster.nodes.values():
            node.wait_ready()
        self.cluster.wait_in_sync()

    def roll(self, load: Load) -> None:
        """Upgrade the nodes one by one, raise the level, and check that the earlier version is refused."""
        cluster, old, new = self.cluster, self.before.level, self.after.level
        assert self._levels() == (old, old)
        for number in NODES:
            self._restart(number, self.after)
            load.wait_for_more()
        assert self._levels() == (old, new)
        back = cluster.followers()[0]
        self._restart(back, self.before)  # A downgrade of one node,
        load.wait_for_more()
        assert self._levels() == (old, old)
        assert f"node {back} knows up to level {old}" in self._refusal(new)
        self._restart(back, self.after)  # and its upgrade again.
        done = self._upgrade(0, dry_run=True)
        assert (done.before, done.level) == (old, new)
        assert self._levels() == (old, new)
        done = self._upgrade(0)
        assert (done.before, done.level) == (old, new)
        wait_until(lambda: self._levels() == (new, new), "every node hears of the level", cluster.log_tails)
        load.wait_for_more()
        self._refused(cluster.followers()[0])
        load.wait_for_more()

    def _refused(self, number: int) -> None:
        """Check that a node of the earlier version cannot come back, and that the later one can."""
        cluster = self.cluster
        assert cluster.nodes[number].stop() == 0
        stray = self._make(number, self.before)
        stray.launch()
        assert stray.wait_end() == 1
        last = stray.log_tail().strip().splitlines()[-1]
        assert f"feature level {self.after.level}, and this version knows up to {self.before.level}" in last, last
        self._say(f"node {number} as the version before: {last}")
        cluster.nodes[number].start()
        cluster.wait_in_sync()

    def _restart(self, number: int, version: Version) -> None:
        cluster = self.cluster
        assert cluster.nodes[number].stop() == 0
        before, node = cluster.nodes[number], self._make(number, version)
        for door in DOORS:
            node.options += [f"--{door.replace('_', '-')}", str(before.ready[door])]
        cluster.nodes[number] = node
        node.start()
        cluster.wait_in_sync()
        self._say(f"node {number} knows up to feature level {version.level}")

    def _make(self, number: int, version: Version) -> Node:
        return version.apply(self.cluster.make(number))

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

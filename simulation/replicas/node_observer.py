"""Observes whole nodes and reports to the oracle of the log what each appends, commits, applies and serves.

The observer changes nothing in a node. Replicas that have applied the same entries have equal tables at any moment; at
the end all replicas have the same messages as well.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, final

from longhall.broker.hall import Hall
from longhall.cluster.replication.group_replica import GroupReplica, Role
from longhall.log.frames import Entry
from longhall.node.assembly import Node
from longhall.node.cluster_node import ClusterNode
from simulation.checkers.leaders import watch_leader
from simulation.checkers.violation import demand
from simulation.replicas.committed_log import CommittedLog, LogIncarnation
from simulation.replicas.hall_contents import contents_of
from simulation.replicas.host_names import name_of
from simulation.replicas.state_comparison import compare_tables

if TYPE_CHECKING:
    from simulation.replicas.simulated_cluster import SimulatedCluster

LOOK_S: Final = 0.25
COMPARE_EVERY: Final = 8  # Looks.
LIVENESS_S: Final = 30.0


@final
class NodeObserver:
    """Observes every replica of a cluster, compares their tables at intervals, and their messages at the end."""

    def __init__(self, cluster: SimulatedCluster) -> None:
        self.damage_allowed = False  # True while a scenario flips bits.
        # Called with every replica before its session starts.
        self.lookers: list[Callable[[GroupReplica], None]] = []
        # Nodes whose state a scenario has altered, with the predicate that detects the alteration.
        self._alterations: dict[int, Callable[[Hall], bool]] = {}
        self._cluster = cluster
        self.committed_log = CommittedLog()
        self._lives: dict[str, tuple[LogIncarnation, GroupReplica]] = {}

    def observe(self, cluster_node: ClusterNode, name: str) -> None:
        """From the moment on at which its session starts: before that nothing can have come."""
        session = cluster_node.session
        start, lead = session.start, cluster_node.lead

        async def observed(member: GroupReplica, *arguments: Any) -> None:
            life = LogIncarnation(self.committed_log, name, member.replica.applied)
            life.check_start(member.replica)
            _look_at(cluster_node, member, life)
            for look in self.lookers:
                look(member)
            self._lives[name] = (life, member)

            async def leading() -> None:
                life.leads(member.replica.index)
                await lead()

            setattr(cluster_node, "lead", leading)  # noqa: B010
            await start(member, *arguments)

        setattr(session, "start", observed)  # noqa: B010

    async def look(self) -> None:
        """Check at intervals, for the whole run, that leaders serve and followers apply only committed entries."""
        looks = 0
        while True:
            await asyncio.sleep(LOOK_S)
            demand(not self.committed_log.broken, self.committed_log.broken)
            found = self._cluster.serving()
            if found is not None:
                for number, partition in found[1].hall.partitions.items():
                    self.committed_log.shows(found[0].name, number, partition.high_watermark)
            for number in self._cluster.nodes:
                process = self._cluster.host(number).process
                if process is not None and process.alive and process.name in self._lives:
                    life, member = self._lives[process.name]
                    if member.role_of(0) is Role.FOLLOWER:
                        life.followed(member.replica.applied)
            self._check_comparisons()
            looks += 1
            if looks % COMPARE_EVERY == 0:
                self._compare(whole=False)

    def alter(self, number: int, is_altered: Callable[[Hall], bool]) -> None:
        """A scenario has altered the state of this node.

        The node differs until it is repaired, or until a restart from what was on its disk before.
        """
        self._alterations[number] = is_altered

    def is_altered(self, number: int) -> bool:
        """True while the node differs or may: a node that dies before its repair has begun differs again after the
        restart.
        """
        if number not in self._alterations:
            return False
        node = self._cluster.nodes.get(number)
        return bool(self._cluster.repairs[number].reason) or node is None or self._alterations[number](node.hall)

    def _check_comparisons(self) -> None:
        """Check that the digests find a difference where a scenario altered the state, and nowhere else."""
        for number, repairs in self._cluster.repairs.items():
            found = repairs.divergences == 0 or number in self._alterations
            demand(found, f"{name_of(number)} is reported to differ, and does not: {repairs.reason}")
        found_leader = self._cluster.leader()
        member = member_of(found_leader) if found_leader is not None else None
        if member is not None:
            demand(not member.comparison.failures, "the leader cannot digest its state")
            undecided = member.comparison.uncommitted
            expected = not undecided or bool(self._alterations)
            demand(expected, f"nodes {sorted(undecided)} are reported to differ, and do not")

    async def check_copies(self) -> None:
        """Wait, after the last request, until all replicas have the same entries, and compare them."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + LIVENESS_S
        while not self._compare(whole=True):
            sentence = (
                f"not every replica has all entries {LIVENESS_S} s after the last request: {self._cluster.stand()}"
            )
            demand(loop.time() < deadline, sentence)
            await asyncio.sleep(LOOK_S)

    def _compare(self, *, whole: bool) -> bool:
        """Compare the replicas that have applied as much as the leader; returns True if these are all replicas."""
        leader = self._cluster.leader()
        member = member_of(leader) if leader is not None else None
        if leader is None or member is None or any(map(self.is_altered, self._cluster.numbers)):
            return False
        same: dict[int, Hall] = {}
        keeping = set(self._cluster.in_sync())
        for number in sorted(keeping & set(self._cluster.nodes)):
            process, node = self._cluster.host(number).process, self._cluster.nodes[number]
            other = member_of(node)
            if process is None or not process.alive or other is None or other.epoch != member.epoch:
                continue
            if other.replica.applied == member.index:
                same[number] = node.hall
        complete = len(same) == len(keeping)
        for number, hall in same.items():
            if hall is not leader.hall:
                compare_tables(leader.hall, hall, name_of(number))
        if complete and whole:
            self._compare_messages(leader.hall, same)
        return complete

    def _compare_messages(self, leader: Hall, halls: dict[int, Hall]) -> None:
        contents = contents_of(leader, damage_allowed=self.damage_allowed)
        for number, hall in halls.items():
            found = contents_of(hall, damage_allowed=self.damage_allowed)
            name = name_of(number)
            demand(sorted(found) == sorted(contents), f"{name} has other partitions than the leader")
            for place, messages in contents.items():
                same = found[place] == messages
                if self.damage_allowed:
                    same = all(found[place].get(offset, value) == value for offset, value in messages.items())
                demand(same, f"{name} has other messages in {place} than the leader")


def member_of(node: Node) -> GroupReplica | None:
    """The node's replica, or None while it has none."""
    return node.cluster_node.member if node.cluster_node is not None else None


def _look_at(cluster_node: ClusterNode, member: GroupReplica, life: LogIncarnation) -> None:
    rejoined = cluster_node._rejoined
    assert rejoined is not None
    good = rejoined.replay.take

    def applying(entry: Entry) -> None:
        life.applied(entry)
        good(entry)

    setattr(rejoined.replay, "take", applying)  # noqa: B010
    watch_leader(member, life.appended, life.committed)

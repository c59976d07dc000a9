"""The partition balancer: the leader of the hall moves partitions of topics, and queues, so that the groups of all
hosts have equal shares. A queue counts as one partition.

A host that joins has a group without partitions, and takes its share of those that exist; the group of a drained host
gives its share to the others. Only the difference moves (`partition_plan`). What cannot move counts in its group. The
hall, groups on chosen hosts, and topics that are placed there stay out of it: somebody has chosen that.

Without `automatic` only an operator's request moves partitions. Automatic moves wait until the plan has been the same
for a while, and begin a few at a time.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Final, Protocol, final

import msgspec

from longhall.broker.configuration import IN_THE_HALL
from longhall.broker.feature_gates import MOVES_LEVEL, QUEUE_MOVES_LEVEL
from longhall.broker.hall import Hall
from longhall.broker.partition_administration import moves_under_way, owned_queue, why_it_stays
from longhall.cluster.placement.copy_calls import HALL
from longhall.cluster.placement.partition_mover import ALL, PartitionMover
from longhall.cluster.placement.partition_plan import PlacedPartition, plan_balance
from longhall.cluster.placement.placement_rules import home_of
from longhall.coordination.ports import ReplicationGroup
from longhall.errors import LonghallError
from longhall.topics.partition_moves import owners_of

LOOK_S: Final = 10.0
CALM_S: Final = 60.0  # So long a plan has to be the same.
AT_ONCE_MAX: Final = 16  # Automatic moves that begin together.

_log = logging.getLogger("longhall.moves")


class BalancedGroups(Protocol):
    """The groups, as the balancer uses them; fulfilled by `group_reconciler`."""

    @property
    def records(self) -> Mapping[str, ReplicationGroup]:
        """All wings, by name."""

    @property
    def leads(self) -> bool:
        """True if this node leads the hall."""

    @property
    def may_spread(self) -> bool:
        """True if what is created without a placement goes to the wings of hosts."""

    def hosts_usable(self) -> frozenset[int]:
        """The live hosts that may store the groups of others."""

    def leader(self, number: int) -> int:
        """The node that leads a group; 0 if none is known."""


class PlannedMove(msgspec.Struct, kw_only=True):
    """A partition, or with the partition -1 a queue, that should be in another group; groups have names."""

    topic: str
    partition: int
    source: str
    target: str


@final
class PartitionBalancer:
    """The plan of moves at the leader of the hall, and the task that carries it out by itself."""

    def __init__(self, hall: Hall, groups: BalancedGroups, mover: PartitionMover, *, automatic: bool) -> None:
        self._hall = hall
        self._groups = groups
        self._mover = mover
        self._automatic = automatic
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begin to balance while this node leads, if that is automatic."""
        if self._automatic:
            self._task = self._hall.background.start("balance partitions", self._balance_always)

    def close(self) -> None:
        if self._task is not None:
            self._task.cancel()

    async def balance(self, *, dry_run: bool) -> list[PlannedMove]:
        """The plan; without `dry_run` all its moves begin."""
        moves = self._plan()
        sources = {(one.topic, one.partition): one.group for one in self._placed()[0]}
        names = {wing.number: wing.name for wing in self._groups.records.values()} | {HALL: IN_THE_HALL}
        if not dry_run:
            await self._begin(moves)
        return [
            PlannedMove(
                topic=move.topic,
                partition=move.partition,
                source=names[sources[move.topic, move.partition]],
                target=names[move.group],
            )
            for move in moves
        ]

    def _plan(self) -> list[PlacedPartition]:
        """The moves that balance the groups; none while the feature level is too low, or partitions move."""
        if self._hall.feature_level < MOVES_LEVEL or moves_under_way(self._hall):
            return []
        usable = self._groups.hosts_usable()
        able = [
            wing.number
            for wing in self._groups.records.values()
            if wing.hosts and home_of(wing) in usable and self._groups.leader(wing.number)
        ]
        placed, others = self._placed()
        return plan_balance(placed, able, others)

    def _placed(self) -> tuple[list[PlacedPartition], Counter[int]]:
        """The partitions in groups of hosts that can move, and the number of those that cannot, by group."""
        of_hosts = {wing.number for wing in self._groups.records.values() if home_of(wing)}
        consumed = {queue.entry.topic_id for queue in self._hall.queues.values() if not queue.entry.owns_topic}
        found: list[PlacedPartition] = []
        others: Counter[int] = Counter()
        for name, topic in self._hall.catalogue.topics.items():
            if not topic.options.wings:
                continue
            owners = owners_of(topic.options.wings, len(topic.partitions))
            here = [PlacedPartition(name, number, owner) for number, owner in enumerate(owners) if owner in of_hosts]
            if here and owned_queue(self._hall, topic) is not None:
                here = [PlacedPartition(name, ALL, here[0].group)]  # A queue in one group is one unit.
                if self._hall.feature_level < QUEUE_MOVES_LEVEL:
                    others.update(one.group for one in here)
                    continue
            if here and not why_it_stays(self._hall, topic, is_consumed=topic.topic_id in consumed):
                found += here
            else:
                others.update(one.group for one in here)
        return found, others

    async def _begin(self, moves: Iterable[PlacedPartition]) -> None:
        targets: dict[str, dict[int, int]] = {}
        for move in moves:
            topic = self._hall.topic(move.topic)
            count = len(topic.partitions) if topic is not None and move.partition == ALL else 0
            some = dict.fromkeys(range(count), move.group) if count else {move.partition: move.group}
            targets.setdefault(move.topic, {}).update(some)
        for name, some in targets.items():
            await self._mover.begin(name, some)
            _log.info("partitions are moved for balance", extra={"topic": name, "partitions": len(some)})

    async def _balance_always(self) -> None:
        loop = asyncio.get_running_loop()
        before: list[PlacedPartition] = []
        since_s = loop.time()
        while True:
            await asyncio.sleep(LOOK_S)
            moves = self._plan() if self._groups.leads and self._groups.may_spread else []
            if not moves or moves != before:
                before, since_s = moves, loop.time()
            elif loop.time() - since_s >= CALM_S:
                try:
                    await self._begin(moves[:AT_ONCE_MAX])
                except LonghallError as error:
                    _log.info("a balance has to wait", extra={"reason": str(error)})

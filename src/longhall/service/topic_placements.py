"""The placement of existing topics, at the leader of the hall: operators change it, and partitions move.

It translates names of groups and placements into moves; the mover carries them out.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Protocol, final

from longhall.broker.catalogue import Topic
from longhall.broker.configuration import ANY_HOST, IN_THE_HALL, PARTS, SHARE, check
from longhall.broker.configuration import PLACEMENT as PLACEMENT_SETTING
from longhall.broker.feature_gates import check_moves, check_placement, check_queue_moves
from longhall.broker.hall import Hall
from longhall.broker.partition_administration import movable_topic, owned_queue
from longhall.broker.topic_administration import must_lead
from longhall.cluster.placement.copy_calls import HALL
from longhall.cluster.placement.partition_mover import PartitionMover
from longhall.cluster.placement.partition_plan import plan_targets
from longhall.coordination.ports import ReplicationGroup
from longhall.errors import Code, LonghallError
from longhall.service.local import LocalBroker
from longhall.service.partition_operations import (
    CancelPartitionMoves,
    CancelQueueMove,
    ListPartitionMoves,
    MovePartitions,
    MovingPartition,
    PlaceQueue,
    PlaceTopic,
)
from longhall.topics.partition_moves import owners_of

PARTITIONS_AT_ONCE_MAX: Final = 1000


class PlacementGroups(Protocol):
    """The groups as this module uses them; fulfilled by `cluster.placement.group_reconciler`."""

    @property
    def records(self) -> Mapping[str, ReplicationGroup]:
        """All wings, by name."""

    async def choose(self, placement: str, name: str) -> list[int]:
        """The wings of a placement, created if needed."""


@final
class TopicPlacements:
    """Carries out the operations of `partition_operations`."""

    def __init__(self, hall: Hall, groups: PlacementGroups, mover: PartitionMover) -> None:
        self._hall = hall
        self._groups = groups
        self._mover = mover

    def register(self, broker: LocalBroker) -> None:
        """Have the broker carry out the operations here."""
        broker.also(PlaceQueue, lambda op, caller: self.place_queue(op.queue, op.placement, op.group))
        broker.also(CancelQueueMove, lambda op, caller: self._mover.cancel(self._queue_topic(op.queue).name))
        broker.also(PlaceTopic, lambda op, caller: self.place(op.topic, op.placement))
        broker.also(MovePartitions, lambda op, caller: self.move(op.topic, op.targets))
        broker.also(CancelPartitionMoves, lambda op, caller: self._mover.cancel(op.topic, op.partitions))
        broker.also(ListPartitionMoves, lambda op, caller: self.moves())

    async def place(self, name: str, placement: str) -> int:
        """Begin to move the partitions of a topic to the groups of a placement; those that are there stay."""
        must_lead(self._hall)
        check({PLACEMENT_SETTING: placement})
        check_moves(self._hall)
        check_placement(self._hall, placement)
        if owned_queue(self._hall, movable_topic(self._hall, name)) is not None:
            return await self.place_queue(name, placement)
        chosen = [HALL] if placement == IN_THE_HALL else await self._groups.choose(placement, name)
        topic = movable_topic(self._hall, name)
        if topic.options.moves.moves:
            raise LonghallError(Code.INVALID_REQUEST, f"Partitions of '{name}' move already: cancel that, or wait.")
        owners = owners_of(topic.options.wings, len(topic.partitions))
        targets = plan_targets(owners, chosen)
        return await self._mover.begin(name, targets) if targets else 0

    async def place_queue(self, name: str, placement: str = "", group: str = "") -> int:
        """Begin to move a queue to the group of a placement, or to a group by its name; it stays if it is there."""
        must_lead(self._hall)
        self._queue_topic(name)
        check_queue_moves(self._hall)
        if group:
            target = self._number(group)
        else:
            check({PLACEMENT_SETTING: placement})
            check_placement(self._hall, placement)
            if placement in (PARTS, ANY_HOST):
                raise LonghallError(
                    Code.INVALID_CONFIGURATION,
                    f"A queue moves as one unit and is not divided later: choose '{placement}' when it is created.",
                )
            target = HALL if placement == IN_THE_HALL else (await self._groups.choose(placement, name))[0]
        topic = self._queue_topic(name)
        wings = topic.options.wings
        if placement == SHARE and wings and not topic.options.moves.moves:
            return 0  # It is a share of one wing already.
        return await self._mover.begin(name, dict.fromkeys(range(len(topic.partitions)), target))

    def _queue_topic(self, name: str) -> Topic:
        """The topic that a queue owns. UNKNOWN_QUEUE, or INVALID_REQUEST if the queue cannot move."""
        queue = self._hall.known_queue(name)
        if not queue.entry.owns_topic:
            raise LonghallError(Code.INVALID_REQUEST, f"'{name}' is a queue over a topic, and is where the topic is.")
        return movable_topic(self._hall, name)

    async def move(self, name: str, targets: Mapping[int, str]) -> int:
        """Begin to move partitions to groups, by the names of these."""
        if len(targets) > PARTITIONS_AT_ONCE_MAX:
            raise LonghallError(Code.INVALID_REQUEST, f"At most {PARTITIONS_AT_ONCE_MAX} partitions in one request.")
        return await self._mover.begin(name, {partition: self._number(group) for partition, group in targets.items()})

    def moves(self) -> list[MovingPartition]:
        """All moves that are under way."""
        names = {wing.number: wing.name for wing in self._groups.records.values()} | {HALL: IN_THE_HALL}
        found: list[MovingPartition] = []
        for move in self._mover.progress():
            found.append(
                MovingPartition(
                    topic=move.topic,
                    partition=move.partition,
                    source=names.get(move.source, str(move.source)),
                    target=names.get(move.target, str(move.target)),
                    phase=move.phase,
                    copied_bytes=move.copied_bytes,
                    left_messages=move.left_messages,
                    problem=move.problem,
                )
            )
        return found

    def _number(self, name: str) -> int:
        if name == IN_THE_HALL:
            return HALL
        wing: Any = self._groups.records.get(name)
        if wing is None or not wing.hosts:
            raise LonghallError(
                Code.INVALID_CONFIGURATION, f"There is no wing '{name}': `longhall cluster wing list` shows them."
            )
        return int(wing.number)

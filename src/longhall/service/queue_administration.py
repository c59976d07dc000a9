"""Administration of queues in a cluster: at the hall's leader, and in the groups that store the queues.

The hall's catalogue is authoritative. A change of a placed queue is committed there first, then applied to its groups,
and then the caller gets the reply.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Any, Final, Protocol, final

import msgspec

from longhall.broker.catalogue import Topic
from longhall.broker.configuration import IN_THE_HALL, PLACEMENT, SHARE, UNPLACED
from longhall.broker.default_placement import (
    GroupFeature,
    default_placement,
    follows_letters,
    groups_support,
    lanes_of,
)
from longhall.broker.feature_gates import (
    check_group_audits,
    check_group_growth,
    check_group_queues,
    check_outbox,
    check_placement,
    may_place_retries,
)
from longhall.broker.hall import Hall
from longhall.broker.partition_administration import check_lanes
from longhall.broker.pending import Pending
from longhall.broker.placement import groups_of
from longhall.broker.queue_policies import effective_settings
from longhall.broker.queues.delivery.receive_any import WeightedWish
from longhall.broker.queues.service import QueueService
from longhall.broker.queues.upkeep.rewind import fork_settings
from longhall.broker.queues.upkeep.side_topics import existing_side_topics
from longhall.cluster.placement.placement_rules import check_letters, check_queue
from longhall.cluster.placement.topic_operations import NoteDeletedQueue
from longhall.cluster.rpc.operation import Caller
from longhall.errors import Code, LonghallError
from longhall.queues.audit import SUFFIX as AUDIT
from longhall.queues.messages import Delivery, MoveTask, QueueView
from longhall.queues.placed_parts import check_lanes as check_growing_lanes
from longhall.queues.settings import QueueSettings
from longhall.service import queue_operations as ops
from longhall.service.local import LocalBroker
from longhall.service.placed_queues import PlacedQueues
from longhall.service.weighted_receive import PlacedWeightedReceive

_log: Final = logging.getLogger("longhall.service")


class PlacementAuthority(Protocol):
    """Chooses groups and applies changes to them; fulfilled by `cluster.placement.group_reconciler`."""

    def is_placed(self, topic: str) -> bool: ...

    def spread(self, copies_min: int = 0) -> list[int]: ...

    async def choose(self, placement: str, name: str) -> list[int]: ...

    async def furnish(self, name: str) -> None: ...

    async def clear(self, name: str, topic_id: bytes, wings: list[int]) -> None: ...

    async def clear_queue(self, name: str, queue_id: bytes, wings: list[int]) -> None: ...

    def call(self, number: int, operation: NoteDeletedQueue, *, now: bool = False) -> Pending[None]: ...


@final
class QueueAdministration:
    """The operations on queues that differ in a cluster, because groups apply them too."""

    def __init__(self, hall: Hall, queues: QueueService, groups: PlacementAuthority, placed: PlacedQueues) -> None:
        self._hall = hall
        self._queues = queues
        self._groups = groups
        self._placed = placed
        self._weighted = PlacedWeightedReceive()

    def register(self, broker: LocalBroker) -> None:
        """Replace the operations of a lone node by these."""
        broker.also(ops.CreateQueue, self._create)
        broker.also(ops.DeleteQueue, self._delete)
        broker.also(ops.ConfigureQueue, self._configure)
        broker.also(ops.SwitchQueue, self._switch)
        broker.also(ops.PurgeQueue, self._purge)
        broker.also(ops.ForkQueue, self._fork)
        broker.also(ops.ReceiveFromAny, self._receive_from_any)
        broker.also(ops.DeliverOutbox, self._deliver_outbox)
        broker.also(ops.CancelMove, self._cancel_move)

    async def _create(self, op: ops.CreateQueue, caller: Caller) -> QueueView:
        if op.topic:
            return await self._create_over(op)
        settings = op.settings
        if settings.placement == UNPLACED:
            return await self._create_by_default(op, settings)
        if settings.placement == IN_THE_HALL:
            return await self._create_in(op, settings, [])
        check_placement(self._hall, settings.placement)
        check_queue(settings)
        if self._queues.view(op.queue) is not None:
            raise LonghallError(Code.QUEUE_EXISTS, f"The name '{op.queue}' is taken.")
        groups = self._groups_of_side(op.queue, settings) or self._groups_of_letters(settings)
        groups = groups or await self._groups.choose(settings.placement, op.queue)
        return await self._create_in(op, settings, groups)

    async def _create_by_default(self, op: ops.CreateQueue, settings: QueueSettings) -> QueueView:
        """Create a queue where the rule of `default_placement` places it: in groups that are led, or in the hall."""
        letters = self._letters(settings)
        able = self._groups.spread()
        in_force = effective_settings(settings, self._hall.catalogue.exchanges.policies)
        placement = default_placement(len(able), settings.partitions, {}, in_force, letters, self._supports)
        settings = msgspec.structs.replace(settings, placement=placement)
        groups = [] if placement == IN_THE_HALL else able[: lanes_of(placement, settings.partitions)]
        if placement != IN_THE_HALL and letters is not None and follows_letters(settings, self._supports):
            groups = list(letters.wings)
            check_queue(settings)
        side = self._side_topic(op.queue, settings)
        if side is not None:  # Of an earlier queue, or of an operator: the queue goes there.
            groups = list(side.options.wings)
            placement = side.configuration.get(PLACEMENT, IN_THE_HALL)
            settings = msgspec.structs.replace(settings, placement=placement)
            check_queue(settings)
        return await self._create_in(op, settings, groups)

    def _supports(self, feature: GroupFeature) -> bool:
        return groups_support(feature, self._hall.feature_level)

    async def _create_in(self, op: ops.CreateQueue, settings: QueueSettings, groups: list[int]) -> QueueView:
        """Create a queue in these groups, or in the hall without any."""
        if groups:
            partitions = max(settings.partitions, len(groups))
            settings = msgspec.structs.replace(settings, wings=tuple(groups), partitions=partitions)
            self._check_audit(settings)
            self._check_growth(settings)
        self._check_letters(op.queue, settings)
        view = await self._queues.create(op.queue, settings, op.deleted_before_ms)
        if groups:
            await self._groups.furnish(op.queue)
        return view

    async def _create_over(self, op: ops.CreateQueue) -> QueueView:
        topic = self._hall.topic(op.topic)
        if topic is not None:
            check_lanes(topic)
        if topic is None or not topic.options.wings:
            return await self._queues.declare(op.queue, op.topic, op.settings)
        return await self._declare(op.queue, topic, op.settings, {})

    async def _declare(self, name: str, topic: Topic, settings: QueueSettings, starts: dict[int, int]) -> QueueView:
        """Create a queue over a topic in groups, which then have it too. Its placement is that of the topic."""
        placement = topic.configuration[PLACEMENT]
        if settings.placement not in (UNPLACED, placement):
            raise LonghallError(
                Code.INVALID_CONFIGURATION,
                f"A queue over a topic is where the topic is: '{topic.name}' has the placement '{placement}'.",
            )
        check_group_queues(self._hall)
        settings = msgspec.structs.replace(
            settings, placement=placement, wings=tuple(topic.options.wings), partitions=len(topic.partitions)
        )
        check_queue(settings)
        self._check_audit(settings)
        self._check_letters(name, settings)
        view = await self._queues.declare_placed(name, topic.topic_id, settings, starts)
        await self._groups.furnish(topic.name)
        return view

    async def _delete(self, op: ops.DeleteQueue, caller: Caller) -> None:
        queue = self._placed.known(op.queue)
        topic = self._hall.catalogue.by_id.get(queue.topic_id) if queue is not None else None
        groups = groups_of(topic.options.wings, topic.options.moves) if topic is not None else []
        await self._queues.delete(op.queue)
        await self._tell_sources(op.queue, groups)
        if queue is None or not groups:
            return
        if queue.incarnation == queue.topic_id:
            await self._groups.clear(op.queue, queue.topic_id, groups)
        else:
            await self._groups.clear_queue(op.queue, queue.incarnation, groups)

    async def _tell_sources(self, name: str, told: list[int]) -> None:
        """Tell the groups whose queues send their dead letters to a deleted queue, except those that are told anyhow.
        A group that does not answer asks by itself, some seconds later.
        """
        sources = [self._hall.running_queue(source) for source in self._hall.catalogue.queues.sources(name)]
        numbers = {number for source in sources if source is not None for number in source.settings.wings} - {*told}
        calls = [self._groups.call(number, NoteDeletedQueue(name), now=True) for number in sorted(numbers)]
        for answer in await asyncio.gather(*calls, return_exceptions=True):
            if isinstance(answer, LonghallError):
                _log.debug("a group was not told of a deletion", extra={"queue": name, "reason": str(answer)})

    async def _configure(self, op: ops.ConfigureQueue, caller: Caller) -> None:
        view = self._queues.view(op.queue)
        settings = op.settings
        if view is not None and settings.placement not in (UNPLACED, view.settings.placement):
            raise LonghallError(Code.INVALID_CONFIGURATION, "Where a queue is placed is decided when it is created.")
        if view is not None and view.settings.wings:
            before = view.settings
            settings = msgspec.structs.replace(
                settings, placement=before.placement, wings=before.wings, partitions=before.partitions
            )
            check_queue(settings)
            self._check_audit(settings)
            self._check_growth(settings)
        self._check_letters(op.queue, settings)
        await self._queues.configure(op.queue, settings)
        queue = self._placed.find(op.queue)
        if queue is not None:
            await self._groups.furnish(queue.topic)

    async def _switch(self, op: ops.SwitchQueue, caller: Caller) -> None:
        await self._queues.switch(op.queue, op.paused)
        queue = self._placed.find(op.queue)
        if queue is not None:
            await self._placed.everywhere(queue, op, caller)

    async def _purge(self, op: ops.PurgeQueue, caller: Caller) -> None:
        """The hall notes the time of a purge last, and the groups do not ask for the time between two purges: a purge
        that failed in one of them can be repeated.
        """
        queue = self._placed.find(op.queue)
        if queue is not None:
            self._queues.check_purge(op.queue, op.apart_ms)
            await self._placed.everywhere(queue, ops.PurgeQueue(op.queue, apart_ms=0), caller)
        await self._queues.purge(op.queue, op.apart_ms)

    async def _fork(self, op: ops.ForkQueue, caller: Caller) -> QueueView:
        queue = self._placed.find(op.queue)
        if queue is None:
            return await self._queues.fork(op.queue, op.name, op.start, op.settings)
        check_group_queues(self._hall)
        if self._queues.view(op.name) is not None:
            raise LonghallError(Code.QUEUE_EXISTS, f"The name '{op.name}' is taken.")
        starts = await self._placed.fork_starts(queue, op.start, caller)
        topic = self._hall.catalogue.by_id.get(queue.topic_id)
        if topic is None:
            raise LonghallError(Code.UNKNOWN_QUEUE, f"Queue '{op.queue}' was deleted.")
        return await self._declare(op.name, topic, fork_settings(op.settings or queue.settings), starts)

    async def _receive_from_any(self, op: ops.ReceiveFromAny, caller: Caller) -> Any:
        if all(self._placed.find(name) is None for name in op.weights):
            wish = WeightedWish(op.count_max, op.wait_ms, op.lease_ms, op.filter, caller.identity, op.in_parts)
            return await self._queues.receive_any(op.weights, wish)

        async def receive(one: ops.ReceiveMessages) -> list[Delivery]:
            queue = self._placed.find(one.queue)
            if queue is not None:
                return await self._placed.carry_out(queue, one, caller)
            return await self._queues.receive(
                one.queue, one.count_max, 0, one.lease_ms, "", one.filter, caller.identity, one.in_parts
            )

        return await self._weighted.receive(op, receive)

    async def _deliver_outbox(self, op: ops.DeliverOutbox, caller: Caller) -> int:
        """Messages that a wing has for a queue, wherever that is."""
        queue = self._placed.find(op.queue)
        if queue is not None:
            return await self._placed.carry_out(queue, op, caller)
        return await self._queues.take_in(op.queue, op.topic_id, op.batch)

    async def _cancel_move(self, op: ops.CancelMove, caller: Caller) -> MoveTask:
        return await self._placed.cancel_move(op, caller) or await self._queues.cancel_move(op.task_id, op.queue)

    def _check_audit(self, settings: QueueSettings) -> None:
        if settings.audit != "off":
            check_group_audits(self._hall)

    def _check_growth(self, settings: QueueSettings) -> None:
        if settings.parts_max > settings.partitions:
            check_group_growth(self._hall)
            check_growing_lanes(settings)

    def _side_topic(self, name: str, settings: QueueSettings) -> Topic | None:
        """A side topic of a queue that is about to be created, if it exists already: it outlives its queue."""
        found = existing_side_topics(self._hall, name, settings)
        if not may_place_retries(self._hall):
            found = [topic for topic in found if topic.name.endswith(AUDIT)]
        return found[0] if found else None

    def _groups_of_side(self, name: str, settings: QueueSettings) -> list[int]:
        """The group of a side topic that exists, for a queue with the placement `share`."""
        side = self._side_topic(name, settings)
        wings = list(side.options.wings) if side is not None and settings.placement == SHARE else []
        return wings if len(wings) == 1 else []

    def _groups_of_letters(self, settings: QueueSettings) -> list[int]:
        """The groups of the dead-letter queue if that is a share: in the same group a move is one atomic step."""
        letters = self._letters(settings)
        if letters is None or settings.placement != SHARE or letters.placement != SHARE:
            return []
        return list(letters.wings)

    def _check_letters(self, name: str, settings: QueueSettings) -> None:
        letters = self._letters(settings)
        check_letters(name, settings, letters)
        if letters is not None and letters.wings != settings.wings:
            check_outbox(self._hall)

    def _letters(self, settings: QueueSettings) -> QueueSettings | None:
        """The settings of the dead-letter queue, if there is one."""
        if settings.dead_letters is None:
            return None
        letters = self._queues.view(settings.dead_letters.queue)
        return letters.settings if letters is not None else None

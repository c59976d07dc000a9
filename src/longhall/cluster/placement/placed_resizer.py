"""The resizer of queues in other replication groups: a task at the leader of the hall.

It asks the groups of each such queue for their fill, decides for all of them at once (`queues.placed_parts` has the
table), and requests the change. More parts are committed in the hall first, and then in the groups: clients that see a
part find it in its group soon. Fewer parts are closed and hidden in the groups first, which know whether they may, and
then in the hall. Whatever fails in between, the next look raises all to the largest number, and decides anew.

Each group orders its FIFO groups by marks in its own log; the hall has no messages and no marks of the queue.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Final, Protocol, TypeVar, final

from longhall.broker.catalogue import Topic
from longhall.broker.feature_gates import may_grow_in_groups
from longhall.broker.hall import EVENT_ROOM_BYTES, Hall
from longhall.broker.pending import Pending
from longhall.broker.queues.running_queue import RunningQueue
from longhall.broker.queues.upkeep.resizer import Resizer, are_readers_done, is_resizable
from longhall.broker.waiting import committed
from longhall.cluster.placement.part_operations import ChangeParts, MeasureParts
from longhall.cluster.placement.placement_rules import settings_in_wing
from longhall.cluster.rpc.operation import Operation
from longhall.errors import LonghallError
from longhall.names import CATALOGUE_SHARD
from longhall.queues.parts import NOT_CALM
from longhall.queues.placed_parts import PartCounts, PartsReport, are_calm, decide_open, raised

LOOK_S: Final = 0.5
CALL_S_MAX: Final = 5.0  # Of the questions to all groups of one queue.
AT_ONCE_MAX: Final = 8  # Queues whose groups are asked at the same time.

R = TypeVar("R")

_log = logging.getLogger("longhall.queues")


class ResizedGroups(Protocol):
    """The groups, as the resizer uses them; fulfilled by `group_reconciler`."""

    @property
    def leads(self) -> bool:
        """True if this node leads the hall."""

    def call(self, number: int, operation: Operation[R]) -> Pending[R]:
        """Have the leader of a group carry out an operation."""


@final
class PlacedResizer:
    """The task that resizes queues in other groups. Its state is not durable: losing it delays a change, no more."""

    def __init__(self, hall: Hall, groups: ResizedGroups, resizer: Resizer) -> None:
        self._hall = hall
        self._groups = groups
        self._resizer = resizer
        self._calm_since_ms: dict[bytes, int] = {}  # By topic.
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begin to resize queues while this node leads."""
        self._task = self._hall.background.start("resize placed queues", self._run)

    def close(self) -> None:
        """Stop the task."""
        if self._task is not None:
            self._task.cancel()

    async def _run(self) -> None:
        while True:
            await asyncio.sleep(LOOK_S)
            queues = self._queues() if self._groups.leads else []
            topics = {queue.entry.topic_id for queue in queues}
            self._calm_since_ms = {topic: at_ms for topic, at_ms in self._calm_since_ms.items() if topic in topics}
            for at in range(0, len(queues), AT_ONCE_MAX):
                await asyncio.gather(*(self._try(queue) for queue in queues[at : at + AT_ONCE_MAX]))

    def _queues(self) -> list[RunningQueue]:
        hall = self._hall
        able = may_grow_in_groups(hall) and hall.refusal is None and not hall.storage_full
        if not able or not hall.has_room(EVENT_ROOM_BYTES // 2):
            return []
        return [one for one in hall.queues.values() if one.settings.wings and is_resizable(one)]

    async def _try(self, queue: RunningQueue) -> None:
        topic = self._hall.catalogue.by_id.get(queue.entry.topic_id)
        if topic is None:
            return
        try:
            async with asyncio.timeout(CALL_S_MAX):
                await self.look(queue, topic)
        except (LonghallError, OSError, TimeoutError) as error:
            _log.info("the parts of a queue in wings wait", extra={"queue": topic.name, "reason": str(error)})

    async def look(self, queue: RunningQueue, topic: Topic) -> None:
        """One step of a queue, if one is due."""
        groups = list(dict.fromkeys(queue.settings.wings))
        if not groups or topic.options.moves.moves:
            return  # It moves to another group, or has moved to the hall.
        asked = [self._groups.call(number, MeasureParts(topic.name, topic.topic_id)) for number in groups]
        reports = await asyncio.gather(*asked)
        if queue.removed or not self._groups.leads:
            return
        counts = PartCounts(topic.open_count, topic.shown_count)
        most = raised(counts, reports)
        if most != counts or any(PartCounts(one.open, one.shown) != most for one in reports):
            await self._raise(topic, groups, most)
            return
        share = settings_in_wing(queue.settings)
        open = decide_open(share, counts.open, reports, self._calm_ms(queue, topic, reports))
        if open > counts.open:
            await self._raise(topic, groups, PartCounts(open, max(open, counts.shown)))
        elif open < counts.open and counts.shown == counts.open and all(one.is_quiet for one in reports):
            self._calm_since_ms.pop(topic.topic_id, None)  # The next halving waits as long again.
            await self._lower(topic, groups, PartCounts(open, counts.shown))
        elif counts.shown > counts.open and self._is_drained(topic, reports):
            await self._lower(topic, groups, PartCounts(counts.open, counts.open))

    def _calm_ms(self, queue: RunningQueue, topic: Topic, reports: list[PartsReport]) -> int:
        if not are_calm(settings_in_wing(queue.settings), topic.open_count, reports):
            self._calm_since_ms.pop(topic.topic_id, None)
            return NOT_CALM
        now_ms = self._hall.time.now_ms()
        return now_ms - self._calm_since_ms.setdefault(topic.topic_id, now_ms)

    def _is_drained(self, topic: Topic, reports: list[PartsReport]) -> bool:
        """True if all queues, in their groups, and all consumer groups, in the hall, have finished the closed parts."""
        ends = {partition: end for one in reports for partition, end in one.ends.items()}
        return all(one.is_drained for one in reports) and are_readers_done(self._hall, topic, ends)

    async def _raise(self, topic: Topic, groups: list[int], counts: PartCounts) -> None:
        if counts != PartCounts(topic.open_count, topic.shown_count):
            self._resizer.change(topic, counts.open, counts.shown, topic.chosen)
            await committed(self._hall, self._hall.shards[CATALOGUE_SHARD])
        await self._tell(topic, groups, counts)

    async def _lower(self, topic: Topic, groups: list[int], counts: PartCounts) -> None:
        reports = await self._tell(topic, groups, counts)
        if all(PartCounts(one.open, one.shown) == counts for one in reports) and self._groups.leads:
            self._resizer.change(topic, counts.open, counts.shown, topic.chosen)
            await committed(self._hall, self._hall.shards[CATALOGUE_SHARD])

    async def _tell(self, topic: Topic, groups: list[int], counts: PartCounts) -> list[PartsReport]:
        change = ChangeParts(topic.name, topic.topic_id, counts.open, counts.shown)
        return await asyncio.gather(*[self._groups.call(number, change) for number in groups])

"""The parts of queues in a replication group, at its own leader: reported to the leader of the hall, and changed as it
says. What only this group knows is decided here: whether parts may be closed or hidden.
"""

from __future__ import annotations

from typing import final

from longhall.broker.catalogue import Topic
from longhall.broker.feature_gates import check_group_growth
from longhall.broker.hall import EVENT_ROOM_BYTES, Hall
from longhall.broker.queues.running_queue import RunningQueue
from longhall.broker.queues.upkeep.resizer import Resizer
from longhall.broker.topic_administration import must_lead
from longhall.broker.waiting import committed
from longhall.cluster.placement.part_operations import ChangeParts, MeasureParts
from longhall.errors import Code, LonghallError
from longhall.names import CATALOGUE_SHARD
from longhall.queues.placed_parts import PartsReport


@final
class GroupParts:
    """Answers the calls of the resizer of the hall."""

    def __init__(self, hall: Hall, resizer: Resizer) -> None:
        self._hall = hall
        self._resizer = resizer

    async def measure(self, op: MeasureParts) -> PartsReport:
        """The parts that this group has, when they are committed."""
        topic, queue = self._find(op.name, op.topic_id)
        report = self._report(topic, queue)
        await committed(self._hall, self._hall.shards[CATALOGUE_SHARD])
        return report

    async def change(self, op: ChangeParts) -> PartsReport:
        """Open parts, close them or hide them."""
        must_lead(self._hall)
        check_group_growth(self._hall)
        topic, queue = self._find(op.name, op.topic_id)
        if self._hall.refusal is not None or not self._hall.has_room(EVENT_ROOM_BYTES // 2):
            raise LonghallError(Code.NOT_READY, f"The parts of '{op.name}' cannot change now.")
        open = op.open if op.open > topic.open_count or self._resizer.is_quiet(topic) else topic.open_count
        if op.shown < topic.shown_count:
            if open == topic.open_count and op.shown == open and self._resizer.are_queues_done(topic):
                self._resizer.hide(topic)
        elif (open, op.shown) != (topic.open_count, topic.shown_count):
            self._resizer.change(topic, open, max(open, op.shown), topic.chosen)
        await committed(self._hall, self._hall.shards[CATALOGUE_SHARD])
        return self._report(topic, queue)

    def _find(self, name: str, topic_id: bytes) -> tuple[Topic, RunningQueue]:
        topic = self._hall.topic(name)
        queue = self._hall.running_queue(name)
        if topic is None or topic.topic_id != topic_id or queue is None or queue.entry.topic_id != topic_id:
            raise LonghallError(Code.UNKNOWN_TOPIC, f"This group does not have the queue '{name}' that is meant.")
        return topic, queue

    def _report(self, topic: Topic, queue: RunningQueue) -> PartsReport:
        state = queue.queue.state
        return PartsReport(
            open=topic.open_count,
            shown=topic.shown_count,
            messages=state.messages + queue.staging.count,
            bytes=state.bytes,
            is_quiet=self._resizer.is_quiet(topic),
            is_drained=self._resizer.are_queues_done(topic),
            ends=self._resizer.closed_ends(topic),
        )

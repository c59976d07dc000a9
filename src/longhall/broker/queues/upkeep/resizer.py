"""The resizer: a queue gets more parts as it fills, and fewer when it has been nearly empty for a while.

grow      parts are created, or opened again, and shown to clients; FIFO groups get a mark; in one atomic write
shrink    the upper half of the parts accepts no more messages, and is delivered until it is drained
hide      then clients do not see it any more; its empty log stays, so that offsets continue when the queue grows

Each is a change of the catalogue and an event of every queue on the topic, in one atomic write: after a crash, or with
another leader, the resizer continues from there. State that is only in memory delays a change at worst.

Kafka clients choose the part themselves, by the number of parts that they know. A mark is written when a client is seen
to know more parts than before. The protocol cannot shrink a topic: so a queue shrinks only when no such client has sent
for a while, and a client that sends meanwhile, or to a hidden part, opens all parts again. No send is refused.

Queues in other replication groups are resized by the leader of the hall (`cluster.placement.placed_resizer`), with the
steps of this module in the hall and in each group.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from typing import Final, final

from longhall.broker.background import cancel
from longhall.broker.catalogue import Topic
from longhall.broker.events import PartitionsAdded
from longhall.broker.feature_gates import may_map
from longhall.broker.hall import EVENT_ROOM_BYTES, Hall
from longhall.broker.partition import Partition
from longhall.broker.queues.running_queue import RunningQueue
from longhall.broker.queues.write import together, write_queue
from longhall.broker.waiting import Commit
from longhall.errors import LonghallError
from longhall.queues.events import LaneOpened, Marked
from longhall.queues.outcomes import Status
from longhall.queues.parts import NOT_CALM, Senders, decide_parts, is_calm

LOOK_S: Final = 0.5
READERS_LOOKS: Final = 20  # Rounds between two checks of consumer groups that still read a closed part.
FORGET_LOOKS: Final = 60  # Rounds between two removals of the state of deleted queues.
# Kafka clients refresh the metadata of a topic every five minutes by default.
CHOSEN_QUIET_MS: Final = 600_000

_log = logging.getLogger("longhall.queues")


@final
class Resizer:
    """The resizing of all queues of one hall. Its own state is not durable."""

    def __init__(self, hall: Hall) -> None:
        self._hall = hall
        self._task: asyncio.Task[None] | None = None
        self._looks = 0
        self._began_ms = hall.time.now_ms()
        self._calm_since_ms: dict[int, int] = {}  # By queue.
        self._chosen_ms: dict[bytes, int] = {}  # By topic: when a client last chose a partition.
        self._senders: dict[bytes, Senders] = {}
        self._ask_readers: dict[bytes, int] = {}  # By topic: the round of the next check of consumer groups.
        self.marks_lost = 0  # Marks not written at the bound: the order of a client's keys may be lost.

    def start(self) -> None:
        """Start the task."""
        self._began_ms = self._hall.time.now_ms()
        self._task = self._hall.background.start("resize", self._run)

    async def stop(self) -> None:
        """Stop the task."""
        await cancel(self._task)

    async def _run(self) -> None:
        while self._hall.commits.failure is None:
            await asyncio.sleep(LOOK_S)
            self._looks += 1
            for queue in [one for one in self._hall.queues.values() if self._is_resized(one)]:
                try:
                    self._look(queue)
                except (OSError, LonghallError) as error:
                    _log.warning(
                        "the parts of a queue could not change", extra={"queue": queue.entry.name, "reason": str(error)}
                    )
                await asyncio.sleep(0)
            if self._looks % FORGET_LOOKS == 0:
                self._forget()

    def _is_resized(self, queue: RunningQueue) -> bool:
        return not queue.settings.wings and is_resizable(queue)

    def _forget(self) -> None:
        """Drop the state of deleted queues and topics."""
        topics = self._hall.catalogue.by_id
        self._calm_since_ms = {n: at_ms for n, at_ms in self._calm_since_ms.items() if n in self._hall.queues}
        self._chosen_ms = {topic: at_ms for topic, at_ms in self._chosen_ms.items() if topic in topics}
        self._senders = {topic: senders for topic, senders in self._senders.items() if topic in topics}
        self._ask_readers = {topic: look for topic, look in self._ask_readers.items() if look > self._looks}

    def _look(self, queue: RunningQueue) -> None:
        hall = self._hall
        if queue.removed or hall.commits.failure is not None or hall.refusal is not None or hall.storage_full:
            return
        if not may_map(hall) or not hall.has_room(EVENT_ROOM_BYTES // 2):
            return
        topic = hall.catalogue.by_id[queue.entry.topic_id]
        now_ms = hall.time.now_ms()
        state = queue.queue.state
        messages = state.messages + queue.staging.count
        calm_ms = NOT_CALM
        if is_calm(queue.settings, topic.open_count, messages, state.bytes):
            calm_ms = now_ms - self._calm_since_ms.setdefault(queue.number, now_ms)
        else:
            self._calm_since_ms.pop(queue.number, None)
        parts = decide_parts(queue.settings, topic.open_count, messages, state.bytes, calm_ms)
        if parts > topic.open_count:
            self.change(topic, parts, max(parts, topic.shown_count), topic.chosen)
        elif parts < topic.open_count:
            if self.is_quiet(topic) and topic.shown_count == topic.open_count:
                self.change(topic, parts, topic.shown_count, topic.chosen)
                self._calm_since_ms.pop(queue.number, None)  # The next halving waits as long again.
        if topic.shown_count > topic.open_count and self._is_drained(topic):
            self.hide(topic)

    def is_quiet(self, topic: Topic) -> bool:
        """True if all clients that choose partitions have refreshed their metadata by now."""
        chosen_ms = self._chosen_ms.get(topic.topic_id, self._began_ms)
        return not topic.chosen or self._hall.time.now_ms() - chosen_ms >= CHOSEN_QUIET_MS

    def closed_ends(self, topic: Topic) -> dict[int, int]:
        """The ends of the closed parts that clients still see, by partition."""
        going = self._hall.routes[topic.name][topic.open_count : topic.shown_count]
        return {one.number: one.log.next_offset for one in going if not one.elsewhere}

    def are_queues_done(self, topic: Topic) -> bool:
        """True if all queues have finished the closed parts."""
        for partition in self._hall.routes[topic.name][topic.open_count : topic.shown_count]:
            end = partition.log.next_offset
            if partition.high_watermark < end:
                return False
            for queue in self._hall.queues_on(topic.topic_id):
                if queue.queue.cursor(partition.lane).floor() < end:
                    return False
        return True

    def _is_drained(self, topic: Topic) -> bool:
        """True if all queues and consumer groups have finished the closed parts."""
        if not self.are_queues_done(topic) or self._looks < self._ask_readers.get(topic.topic_id, 0):
            return False
        self._ask_readers[topic.topic_id] = self._looks + READERS_LOOKS
        if not are_readers_done(self._hall, topic, self.closed_ends(topic)):
            return False
        del self._ask_readers[topic.topic_id]
        return True

    def hide(self, topic: Topic) -> bool:
        """Let clients see no closed parts any more. False if that is not possible now."""
        if topic.topic_id in self._senders:
            self._senders[topic.topic_id].forget()
        return self.change(topic, topic.open_count, topic.open_count, False)

    def change(self, topic: Topic, open: int, shown: int, chosen: bool) -> bool:
        """Change the numbers of open and shown parts. False if that is not possible now."""
        hall = self._hall
        if topic.options.moves.moves:
            return False  # The group that takes a queue has the parts that it had when the move began.
        events = hall.catalogue.decide_map(topic, open, shown, chosen)
        queues = hall.queues_on(topic.topic_id)
        marks = mark_all(queues) if open != topic.open_count else []
        if not events or marks is None:
            return False
        before = topic.open_count
        with together(hall):
            for event in events:
                hall.append_catalogue(event, Commit())
                if isinstance(event, PartitionsAdded):
                    open_lanes(hall, queues, event)
            for queue, marked in marks:
                write_queue(hall, queue, [marked])
        extra = {"topic": topic.name, "parts": open, "before": before, "shown": shown, "generation": topic.generation}
        _log.info("the parts of a queue have changed", extra=extra)
        return True

    def partition_chosen(self, partition: Partition, sender: int) -> None:
        """Handle a send of a Kafka client to a part of its choice, before the append."""
        hall = self._hall
        topic = hall.catalogue.by_id.get(partition.topic_id)
        if topic is None or hall.refusal is not None or not may_map(hall) or not hall.has_room(EVENT_ROOM_BYTES // 2):
            return  # There are no other parts, or the send is refused too.
        self._chosen_ms[topic.topic_id] = hall.time.now_ms()
        if topic.open_count < topic.shown_count or partition.number >= topic.open_count:
            parts = topic.open_count  # The client does not know that parts are closed or hidden.
            while parts < topic.shown_count or parts <= partition.number:
                parts *= 2
            self.change(topic, parts, parts, True)
        elif not topic.chosen:
            self.change(topic, topic.open_count, topic.shown_count, True)
        senders = self._senders.get(topic.topic_id)
        if senders is None:
            senders = self._senders[topic.topic_id] = Senders(self._least(topic))
        if senders.notices_growth(sender, partition.number):
            marks = mark_all(hall.queues_on(topic.topic_id))
            self.marks_lost += marks is None
            for queue, marked in marks or []:
                write_queue(hall, queue, [marked])

    def _least(self, topic: Topic) -> int:
        for queue in self._hall.queues_on(topic.topic_id):
            if queue.entry.owns_topic:
                return queue.settings.partitions
        return len(topic.partitions)


def is_resizable(queue: RunningQueue) -> bool:
    """True if the number of parts of this queue changes, or has changed."""
    return queue.grows or (queue.open_parts > 0 and queue.entry.owns_topic)


def are_readers_done(hall: Hall, topic: Topic, ends: Mapping[int, int]) -> bool:
    """True if all consumer groups have committed these ends of partitions, or nothing in them."""
    places = [(topic.name, partition) for partition in ends]
    for groups in hall.groups:
        for line in groups.list_groups():
            for row in groups.fetch_offsets(line.group_id, places, False):
                if 0 <= row.offset < ends[row.partition]:
                    return False
    return True


def mark_all(queues: list[RunningQueue]) -> list[tuple[RunningQueue, Marked]] | None:
    """Marks for the FIFO queues among these queues of one topic; None if one is at its bound."""
    marks: list[tuple[RunningQueue, Marked]] = []
    for queue in queues:
        ends = [(partition.lane, partition.log.next_offset) for partition in queue.route]
        decided = queue.queue.decide_mark(ends)
        if isinstance(decided, Status):
            return None
        if decided is not None:
            marks.append((queue, decided))
    return marks


def open_lanes(hall: Hall, queues: list[RunningQueue], added: PartitionsAdded) -> None:
    """Open lanes on new partitions in all queues of the topic. Inside an atomic write."""
    for queue in queues:
        write_queue(hall, queue, [LaneOpened(queue=queue.number, lane=number) for number in added.partitions])

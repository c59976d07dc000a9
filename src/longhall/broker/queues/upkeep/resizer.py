"""Resize: a queue gets more parts as it fills, and fewer when it has been nearly empty for a while.

grow      parts are made, or opened again, and shown to clients; FIFO groups get a mark; all in one step
shrink    the upper half of the parts takes no more messages, and is given out like the others until it is drained
hide      then clients are not told of it any more; its empty log is kept, so that offsets go on when the queue grows

Each is a change of the catalogue and an event of every queue on the topic, written together: after a crash, or with
another leader, whoever looks next goes on from there. What is kept only in memory errs on the slow side.

Kafka clients choose the part themselves, by the number of parts that they know. Whoever of them is seen to know more
parts than before gets a mark. Fewer parts have no word in their protocol: so a queue shrinks when no such client has
sent for a while, and one that sends meanwhile, or to a part that is hidden, has all of them open again. Nobody is
refused.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Final, final

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
READERS_LOOKS: Final = 20  # Groups that have not read a part that is to go are asked again after so many.
FORGET_LOOKS: Final = 60  # What is remembered of queues that are gone is forgotten with every so manieth look.
# Clients ask for the partitions of a topic every five minutes, unless they were told otherwise.
CHOSEN_QUIET_MS: Final = 600_000

_log = logging.getLogger("longhall.queues")


@final
class Resizer:
    """See the module."""

    def __init__(self, hall: Hall) -> None:
        self._hall = hall
        self._task: asyncio.Task[None] | None = None
        self._looks = 0
        self._began_ms = hall.time.now_ms()
        self._calm_since_ms: dict[int, int] = {}  # By queue.
        self._chosen_ms: dict[bytes, int] = {}  # By topic: when a client last sent to a partition of its choice.
        self._senders: dict[bytes, Senders] = {}
        self._ask_readers: dict[bytes, int] = {}  # By topic: at which look, because there may be many groups.
        self.marks_lost = 0  # There were too many of a queue, and a client's keys may have overtaken.

    def start(self) -> None:
        """Look now and then."""
        self._began_ms = self._hall.time.now_ms()
        self._task = self._hall.background.start("resize", self._run)

    async def stop(self) -> None:
        """Look no more."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _run(self) -> None:
        while self._hall.commits.failure is None:
            await asyncio.sleep(LOOK_S)
            self._looks += 1
            for queue in [one for one in self._hall.queues.values() if self._is_resized(one)]:
                try:
                    self._look(queue)
                except (OSError, LonghallError) as error:
                    _log.warning("a queue keeps its parts", extra={"queue": queue.entry.name, "reason": str(error)})
                await asyncio.sleep(0)
            if self._looks % FORGET_LOOKS == 0:
                self._forget()

    def _is_resized(self, queue: RunningQueue) -> bool:
        return queue.grows or (queue.open_parts > 0 and queue.entry.owns_topic)

    def _forget(self) -> None:
        """What is remembered of queues that are gone."""
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
            if self._is_quiet(topic, now_ms) and topic.shown_count == topic.open_count:
                self.change(topic, parts, topic.shown_count, topic.chosen)
                self._calm_since_ms.pop(queue.number, None)  # The next half takes as long again.
        if topic.shown_count > topic.open_count and self._is_drained(topic):
            if topic.topic_id in self._senders:
                self._senders[topic.topic_id].forget()
            self.change(topic, topic.open_count, topic.open_count, False)

    def _is_quiet(self, topic: Topic, now_ms: int) -> bool:
        """Whether everybody who chooses among the parts has heard by now of how many there are."""
        return not topic.chosen or now_ms - self._chosen_ms.get(topic.topic_id, self._began_ms) >= CHOSEN_QUIET_MS

    def _is_drained(self, topic: Topic) -> bool:
        """Whether nobody has anything to do in the parts that are to go: neither queues nor groups that read them."""
        hall = self._hall
        going = hall.routes[topic.name][topic.open_count : topic.shown_count]
        for partition in going:
            end = partition.log.next_offset
            if partition.high_watermark < end:
                return False
            for queue in hall.queues_on(topic.topic_id):
                if queue.queue.cursor(partition.log.partition).floor() < end:
                    return False
        if self._looks < self._ask_readers.get(topic.topic_id, 0):
            return False
        self._ask_readers[topic.topic_id] = self._looks + READERS_LOOKS
        places = [(topic.name, partition.number) for partition in going]
        for groups in hall.groups:
            for line in groups.list_groups():
                for row in groups.fetch_offsets(line.group_id, places, False):
                    if 0 <= row.offset < hall.routes[topic.name][row.partition].log.next_offset:
                        return False
        del self._ask_readers[topic.topic_id]
        return True

    def change(self, topic: Topic, open: int, shown: int, chosen: bool) -> bool:
        """Have so many parts open and so many shown from now on. False if that cannot be now."""
        hall = self._hall
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
        """A client sends to a part of its own choice, and is about to be answered."""
        hall = self._hall
        topic = hall.catalogue.by_id.get(partition.topic_id)
        if topic is None or hall.refusal is not None or not may_map(hall) or not hall.has_room(EVENT_ROOM_BYTES // 2):
            return  # Then there are no other parts, or what is sent is not taken either.
        self._chosen_ms[topic.topic_id] = hall.time.now_ms()
        if topic.open_count < topic.shown_count or partition.number >= topic.open_count:
            parts = topic.open_count  # It does not know that parts go, or are gone.
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


def mark_all(queues: list[RunningQueue]) -> list[tuple[RunningQueue, Marked]] | None:
    """Marks for those of these queues, all on one topic, that keep an order; None if one of them has too many."""
    marks: list[tuple[RunningQueue, Marked]] = []
    for queue in queues:
        ends = [(partition.log.partition, partition.log.next_offset) for partition in queue.route]
        decided = queue.queue.decide_mark(ends)
        if isinstance(decided, Status):
            return None
        if decided is not None:
            marks.append((queue, decided))
    return marks


def open_lanes(hall: Hall, queues: list[RunningQueue], added: PartitionsAdded) -> None:
    """What stands on the topic gives out from the new ones too. Inside a step."""
    for queue in queues:
        write_queue(hall, queue, [LaneOpened(queue=queue.number, lane=number) for number in added.partitions])

"""Withheld messages: leased messages that cannot be delivered, which are redelivered at the end of the lease.

The lease is committed before the message is read, so the withdrawal of its attempt is an event of its own, committed
before the reply: no message loses attempts unseen. In a FIFO queue the following messages of its group are withheld
too. With at-most-once delivery the message is lost, because the lease settled it.
"""

from __future__ import annotations

from typing import final

from longhall.broker.hall import EVENT_ROOM_BYTES, Hall
from longhall.broker.queues.audit.audit_log import UNSEEN, audits, note_return
from longhall.broker.queues.running_queue import RunningQueue
from longhall.broker.queues.write import together, write_queue
from longhall.errors import Code, LonghallError
from longhall.queues.delivery_reports import message_info_of
from longhall.queues.envelope import decode_record
from longhall.queues.outcomes import Given
from longhall.records.record import Record


@final
class Withheld:
    """The withheld messages of one reply."""

    def __init__(self, hall: Hall, queue: RunningQueue, consumer: str) -> None:
        self.count = 0
        self._hall = hall
        self._queue = queue
        self._consumer = consumer
        self._groups: set[str] = set()

    def stops(self, given: Given) -> bool:
        """True if an earlier message of its group was withheld."""
        return given.candidate.group in self._groups

    def add(self, given: Given) -> None:
        """Withdraw the attempt, unless another lease replaced it. Raises STORAGE_FULL."""
        hall = self._hall
        queue = self._queue
        if queue.settings.fifo:
            self._groups.add(given.candidate.group)
        if queue.removed or given.lane not in queue.lanes:
            return
        place = (given.lane, given.candidate.offset)
        returned = queue.queue.decide_unseen(hall.time.now_ms(), *place, given.number)
        if isinstance(returned, Code):
            return
        if not hall.has_room(EVENT_ROOM_BYTES // 4):
            raise LonghallError(Code.STORAGE_FULL, "the disk is full")
        self.count += 1
        record = given.candidate.payload
        with together(hall):
            write_queue(hall, queue, [returned])
            if audits(queue) and isinstance(record, Record):
                info = message_info_of(decode_record(record, given.lane))
                note_return(hall, queue, place, info, given.attempts, UNSEEN, self._consumer, returned.visible_ms)

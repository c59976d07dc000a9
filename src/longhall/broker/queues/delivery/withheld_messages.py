"""Withhold: what was leased and cannot be shown comes again when its lease would have ended, and is no attempt.

The lease was committed before anybody looked whether the message can be read, so this is an event of its own, committed
before the rest is shown: no message uses up its attempts unseen. In a FIFO queue what follows it in its group stays
behind with it. At most once it is gone: it was settled as it was leased.
"""

from __future__ import annotations

from typing import final

from longhall.broker.hall import EVENT_ROOM_BYTES, Hall
from longhall.broker.queues.audit.audit_log import UNSEEN, audited, audits, note
from longhall.broker.queues.running_queue import RunningQueue
from longhall.broker.queues.write import together, write_queue
from longhall.errors import Code, LonghallError
from longhall.queues.delivery_reports import message_info_of
from longhall.queues.envelope import decode_record
from longhall.queues.outcomes import Given
from longhall.records.record import Record


@final
class Withheld:
    """Those of one answer."""

    def __init__(self, hall: Hall, queue: RunningQueue, consumer: str) -> None:
        self.count = 0
        self._hall = hall
        self._queue = queue
        self._consumer = consumer
        self._groups: set[str] = set()

    def stops(self, given: Given) -> bool:
        """Whether one before it in its group was withheld."""
        return given.candidate.group in self._groups

    def add(self, given: Given) -> None:
        """Take back the lease, unless the message has gone on to somebody else since. Raises STORAGE_FULL."""
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
                until_ms = returned.visible_ms
                record_written = audited(
                    hall,
                    queue,
                    "returned",
                    place,
                    info,
                    given.attempts,
                    reason=UNSEEN,
                    consumer=self._consumer,
                    until_ms=until_ms,
                )
                note(hall, queue, [record_written])

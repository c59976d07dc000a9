"""Send to a queue: the messages of one call that go to the same log are appended there as one batch, without waiting.

A batch of ten costs one append and one fold. Messages for queues that have to be asked for room, and messages that are
cut into parts, are sent one by one (`send`).
"""

from __future__ import annotations

from contextlib import nullcontext
from typing import Final, final

from longhall.broker.hall import EVENT_ROOM_BYTES, Hall
from longhall.broker.partition import Partition
from longhall.broker.pending import Pending, when_acknowledged
from longhall.broker.queues.delays.staging import DelayStager
from longhall.broker.queues.running_queue import RunningQueue
from longhall.broker.queues.sending.rules import (
    ONE_RECORD_BYTES_MAX,
    charge_quota,
    clear_bytes,
    due_of_send,
    identify,
    record_of,
    repeated_send,
)
from longhall.broker.queues.sending.send import send_one_by_one
from longhall.broker.queues.write import together, write_records
from longhall.errors import Code, LonghallError
from longhall.queues.envelope import RANDOM_BYTES, new_message_id
from longhall.queues.messages import Accepted, Outgoing
from longhall.records.record import Record

GATHERED_BYTES_MAX: Final = 512 * 1024  # Of the bodies in one batch, or one message if that is larger.


def send(hall: Hall, stager: DelayStager, queue: RunningQueue, messages: list[Outgoing]) -> Pending[list[Accepted]]:
    """Accept or refuse each of these messages; done when all that were accepted may be acknowledged."""
    pending: Pending[list[Accepted]] = Pending()
    answers = send_batch(hall, stager, queue, messages)
    if answers is None:
        pending.run(send_one_by_one(hall, stager, queue, messages))
    else:
        pending.decide(answers)
        when_acknowledged(hall, queue.shard, pending, queue.acknowledgers, queue.in_sync_min)
    return pending


def send_batch(hall: Hall, stager: DelayStager, queue: RunningQueue, messages: list[Outgoing]) -> list[Accepted] | None:
    """Append these messages as batches; they are not committed yet. None if they have to be sent one by one."""
    settings = queue.settings
    if settings.messages_max or settings.bytes_max or queue.removed:
        return None
    if queue.slow_send is not None:
        if not queue.slow_send.done:
            return None  # These messages come behind those, which are still under way.
        queue.slow_send = None
    body_bytes_max = min(settings.message_bytes_max, ONE_RECORD_BYTES_MAX)
    for message in messages:
        if clear_bytes(message) > body_bytes_max:
            return None
    gathering = _BatchSend(hall, stager, queue, len(messages))
    answers = [gathering.take(message) for message in messages]
    gathering.finish()
    return answers


@final
class _BatchSend:
    """The messages of one call. An answer is complete when what it is about is written."""

    def __init__(self, hall: Hall, stager: DelayStager, queue: RunningQueue, count: int) -> None:
        self._hall = hall
        self._random = hall.world.entropy.bytes(RANDOM_BYTES * count)  # For the ids of so many messages.
        self._ids = 0
        self._stager = stager
        self._queue = queue
        self._now_ms = hall.time.now_ms()
        self._target: Partition | None = None
        self._records: list[Record] = []
        self._answers: list[Accepted] = []
        self._bytes = 0
        self._staged = False
        self._identities: set[str] = set()  # Of messages that deduplication does not know yet.

    def take(self, message: Outgoing) -> Accepted:
        """One message, for the next `write` or one before it."""
        try:
            return self._take(message)
        except LonghallError as error:
            return Accepted(code=error.code, message=str(error))

    def _take(self, message: Outgoing) -> Accepted:
        queue = self._queue
        if queue.deduplicates:
            repeated = self._repeated(message)
            if repeated is not None:
                return repeated
        size = len(message.body)
        charge_quota(queue, size, self._now_ms)
        accepted = Accepted(message_id=message.message_id or self._new_id())
        due_ms = due_of_send(queue, message.delay_ms, self._now_ms)
        target = self._target_of(message, due_ms)
        if target is not self._target or self._bytes + size > GATHERED_BYTES_MAX:
            self.write()
            self._target = target
        self._records.append(record_of(queue, message, accepted.message_id, self._now_ms, due_ms))
        self._answers.append(accepted)
        self._bytes += size
        return accepted

    def _new_id(self) -> str:
        at = self._ids * RANDOM_BYTES
        self._ids += 1
        return new_message_id(self._random[at : at + RANDOM_BYTES])

    def _repeated(self, message: Outgoing) -> Accepted | None:
        identity = identify(self._queue, message)
        if identity in self._identities:
            self.write()
        repeated = repeated_send(self._queue, message, self._now_ms)
        if repeated is None and identity:
            self._identities.add(identity)
        return repeated

    def _target_of(self, message: Outgoing, due_ms: int) -> Partition:
        hall = self._hall
        if not due_ms:
            return self._queue.lane_for(message.priority, message.group)
        if hall.storage_full or not hall.has_room(len(message.body) + EVENT_ROOM_BYTES):
            raise LonghallError(Code.STORAGE_FULL, "the disk is full")
        with nullcontext() if hall.wal.is_held else together(hall):
            log = self._stager.log_for(self._queue, due_ms, self._now_ms)
        self._staged = True
        return log

    def finish(self) -> None:
        """Append what is left, after the last message."""
        self.write()
        if self._staged:
            self._stager.arm(self._queue)

    def write(self) -> None:
        """Append what has been gathered."""
        target, answers = self._target, self._answers
        if target is None or not answers:
            return
        try:
            offset = write_records(self._hall, target, self._records, self._now_ms)
        except LonghallError as error:
            for accepted in answers:
                accepted.code = error.code
                accepted.message = str(error)
                accepted.message_id = ""
        else:
            self._queue.on_sent(len(answers))
            meter = self._hall.usage.meter
            if meter is not None:
                meter.sent(self._queue.entry.name, len(answers), self._bytes)
            if self._queue.settings.fifo:
                for at, accepted in enumerate(answers):
                    accepted.sequence = self._queue.sequence_of(target.lane, offset + at)
        self._records = []
        self._answers = []
        self._bytes = 0

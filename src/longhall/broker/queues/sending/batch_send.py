"""Gather: the messages of one call that go to the same log are appended there as one batch, without waiting.

So a batch of ten costs one append and one fold. Queues that have to be asked for room for each message, and messages
that are cut into parts, take the longer way through `send`.
"""

from __future__ import annotations

from typing import Final, final

from longhall.broker.hall import EVENT_ROOM_BYTES, Hall
from longhall.broker.partition import Partition
from longhall.broker.queues.delays.staging import DelayStager
from longhall.broker.queues.running_queue import EXPIRES, RunningQueue
from longhall.broker.queues.write import together, write_records
from longhall.errors import Code, LonghallError
from longhall.queues.deduplication import FirstSend, deduplication_id, fingerprint
from longhall.queues.envelope import derive_message_id, encode_record
from longhall.queues.messages import Accepted, Outgoing
from longhall.records.record import Record

ONE_RECORD_BYTES_MAX: Final = 3 * 1024 * 1024  # Above it a message is cut, however large the queue's own limit is.
GATHERED_BYTES_MAX: Final = 512 * 1024  # Of the bodies in one batch, or one message if that is larger.


def send_batch(hall: Hall, stager: DelayStager, queue: RunningQueue, messages: list[Outgoing]) -> list[Accepted] | None:
    """Append these messages as batches; they are not committed yet. None if they have to be sent one by one."""
    settings = queue.settings
    if settings.messages_max or settings.bytes_max or queue.removed:
        return None
    body_bytes_max = min(settings.message_bytes_max, ONE_RECORD_BYTES_MAX)
    for message in messages:
        if len(message.body) > body_bytes_max:
            return None
    gathering = _BatchSend(hall, stager, queue)
    answers = [gathering.take(message) for message in messages]
    gathering.finish()
    return answers


@final
class _BatchSend:
    """The messages of one call. An answer is complete when what it is about is written."""

    def __init__(self, hall: Hall, stager: DelayStager, queue: RunningQueue) -> None:
        self._hall = hall
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
        settings = queue.settings
        if settings.deduplication != "off":
            repeated = self._repeated(message, settings.deduplication == "content")
            if repeated is not None:
                return repeated
        size = len(message.body)
        charge_quota(queue, size, self._now_ms)
        accepted = Accepted()
        delay_ms = message.delay_ms if message.delay_ms >= 0 else settings.delay_ms
        due_ms = self._now_ms + delay_ms if delay_ms > 0 else 0
        target = self._target_of(message, due_ms)
        if target is not self._target or self._bytes + size > GATHERED_BYTES_MAX:
            self.write()
            self._target = target
        self._records.append(record_of(queue, message, self._now_ms, due_ms))
        self._answers.append(accepted)
        self._bytes += size
        return accepted

    def _repeated(self, message: Outgoing, by_content: bool) -> Accepted | None:
        identity = deduplication_id(message.deduplication_id, message.body, by_content)
        message.deduplication_id = identity
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
        with together(hall):
            log = self._stager.log_for(self._queue, due_ms, self._now_ms)
        self._staged = True
        return log

    def finish(self) -> None:
        """Everything is taken."""
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
        else:
            self._queue.on_sent(len(answers))
            for at, accepted in enumerate(answers):
                self._answer(accepted, target.log.partition, offset + at)
        self._records = []
        self._answers = []
        self._bytes = 0

    def _answer(self, accepted: Accepted, lane: int, offset: int) -> None:
        accepted.message_id = derive_message_id(lane, offset)
        if self._queue.settings.fifo:
            accepted.sequence = self._queue.sequence_of(lane, offset)


def record_of(queue: RunningQueue, message: Outgoing, now_ms: int, due_ms: int) -> Record:
    """The record that a message becomes. Its id is made from the place it gets, so it need not be written down."""
    lives_ms = message.time_to_live_ms if message.time_to_live_ms >= 0 else queue.settings.time_to_live_ms
    expires_ms = max(due_ms, now_ms) + lives_ms if lives_ms > 0 else 0
    if expires_ms:
        queue.expiry = EXPIRES
    return encode_record(message, "", now_ms, expires_ms, due_ms)


def charge_quota(queue: RunningQueue, size_bytes: int, now_ms: int) -> None:
    """A message for this queue: refuse it if the queue has had more than its quota, else count it."""
    quota = queue.route[0].options.quota
    if quota is not None:
        check_quota(queue, now_ms)
        quota.charge(size_bytes, 1, now_ms)


def check_quota(queue: RunningQueue, now_ms: int) -> None:
    """Refuse a message that `charge_quota` would refuse now."""
    place = queue.route[0]
    quota = place.options.quota
    debt_ms = quota.debt_ms(now_ms) if quota is not None else 0
    if debt_ms:
        place.traffic.throttled += 1
        name = queue.entry.name
        raise LonghallError(Code.OVER_QUOTA, f"Queue '{name}' has had its quota; send again in {debt_ms} ms.")


def repeated_send(queue: RunningQueue, message: Outgoing, now_ms: int) -> Accepted | None:
    """The answer to a send that came before within the window, or None if this is the first."""
    settings = queue.settings
    if not message.deduplication_id:
        return None
    scope = message.group if settings.deduplication_scope == "group" else ""
    mark = fingerprint(message.deduplication_id, scope)
    refuses = settings.repeated_sends == "refuse"
    decided = queue.sent.decide(mark, now_ms, settings.deduplication_window_ms, refuses)
    if isinstance(decided, FirstSend):
        sequence = queue.sequence_of(decided.lane, decided.sequence)
        return Accepted(message_id=decided.message_id, sequence=sequence, repeated=True)
    if isinstance(decided, Code):
        raise LonghallError(decided, "the message was sent before")
    return None

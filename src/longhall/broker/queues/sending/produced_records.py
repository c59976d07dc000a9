"""The records of a produced batch as the rules of a queue see them: which are kept, delayed, repeated or refused.

A batch is opened only if a rule has to see its records. It is accepted or refused as a whole, as Kafka's protocol has
it; a refusal names the records at fault. The plan changes no state.

    rule                a record                     becomes
    size                above the limit              a refusal, MESSAGE_TOO_LARGE
    deduplication       sent before in the window    a repeat: not stored; with `repeated_sends: refuse` a refusal
    delay               of the queue, or its own     a staged record; in a transaction one that is hidden until then
    time to live        without its own              a record with the end of its life
    retry.sends         of a retry queue             a staged record with one failed attempt more, or a dead letter
"""

from __future__ import annotations

from typing import Final, final

from longhall.broker.produced import ProducedBatch
from longhall.broker.queues.running_queue import EXPIRES, RunningQueue
from longhall.broker.queues.sending.rules import (
    body_bytes_max,
    check_size,
    due_of_send,
    end_of_life,
    first_send,
    identity_of,
    open_elsewhere,
    scope_of,
)
from longhall.errors import Code, LonghallError
from longhall.queues.deduplication import FirstSend, fingerprint
from longhall.queues.envelope import (
    attempts_of,
    failed_record,
    peek_fields,
    ruled_record,
    seal_of,
    sent_as,
    without_whole,
)
from longhall.queues.open_sends import OPEN_MAX
from longhall.queues.retry import retry_delay_ms
from longhall.queues.settings import RetryPolicy
from longhall.records.batch import HEADER_BYTES, build_batch, parse_header, read_records
from longhall.records.compression import NONE
from longhall.records.record import Record
from longhall.records.seal import TAG_BYTES

OPENED_BYTES_MAX: Final = 32 * 1024 * 1024  # Of a compressed batch for a queue, once it is decompressed.


@final
class RecordsRefused(LonghallError):
    """Some records of a batch are refused, and so the batch."""

    def __init__(self, code: Code, message: str, records: list[tuple[int, str]]) -> None:
        super().__init__(code, message)
        self.records = records


@final
class ProducedRecords:
    """The plan for one batch. Without `opened` it is appended as it is."""

    def __init__(
        self,
        queue: RunningQueue,
        batch: ProducedBatch,
        now_ms: int,
        windowed: bool = True,
        attempts_max: int = 0,
    ) -> None:
        """`windowed` False: the window is not asked, because replicas of older versions would remember less.

        `attempts_max` is that of the dead-letter queue; 0 if there is none.
        """
        self._attempts_max = attempts_max
        self._queue = queue
        self._batch = batch
        self._now_ms = now_ms
        self.count = batch.header.record_count  # Messages that take room, and their bytes.
        self.body_bytes = 0
        self.opened = False
        self.changed = False
        self.kept: list[Record] = []
        self.staged: list[tuple[int, Record]] = []  # Due time and record.
        self.dead: list[tuple[int, Record]] = []  # Attempts and record.
        self.repeats: list[FirstSend | None] = []  # None: the first is in the same batch.
        self._marks: set[bytes] = set()
        self._deduplicates = queue.deduplicates and windowed
        if self._wants_records():
            self._open()

    def _wants_records(self) -> bool:
        settings = self._queue.settings
        if settings.retry is not None and settings.retry.sends:
            return True
        if settings.delay_ms or settings.time_to_live_ms or settings.bytes_max or self._deduplicates:
            return True
        header = self._batch.header
        return header.compression != NONE or header.size_bytes - HEADER_BYTES > body_bytes_max(self._queue)

    def _open(self) -> None:
        batch = self._batch
        records = read_records(batch.frame, batch.at, OPENED_BYTES_MAX)
        refused: list[tuple[int, str]] = []
        code: Code | None = None
        for index, record in enumerate(records):
            try:
                self._judge(record)
            except LonghallError as error:
                if error.retriable:
                    raise
                code = code or error.code
                refused.append((index, str(error)))
        if code is not None:
            raise RecordsRefused(code, refused[0][1], refused)
        self.opened = True
        self.changed = self.changed or bool(self.repeats or self.staged or self.dead)
        self.count = len(self.kept) + len(self.staged)

    def _judge(self, record: Record) -> None:
        size = len(record.value or b"") - (TAG_BYTES if seal_of(record) else 0)
        check_size(self._queue, size)
        identity = self._identify(record) if self._deduplicates else ""
        if identity is None:
            return
        self.body_bytes += size
        self._place(record, identity)

    def _identify(self, record: Record) -> str | None:
        """The deduplication id of a record, empty without one; None for a repeat."""
        queue, producer = self._queue, self._batch.header.producer_id
        given, group, _, _ = sent_as(record)
        if not given and producer >= 0 and queue.settings.deduplication != "content":
            return ""  # Its sequence shows repeats.
        identity = identity_of(queue, given, record.value or b"")
        if not identity:
            return ""
        mark = fingerprint(identity, scope_of(queue, group, record.key))
        in_transaction = self._batch.header.is_transactional
        if queue.open_sends.is_open(mark, producer if in_transaction else -1):
            raise open_elsewhere()
        if mark in self._marks:
            if queue.settings.repeated_sends == "refuse":
                raise LonghallError(Code.REPEATED_SEND, "the message is in the batch twice")
            self.repeats.append(None)
            return None
        first = first_send(queue, mark, self._now_ms)
        if first is not None:
            self.repeats.append(first)
            return None
        if in_transaction and len(queue.open_sends) + len(self._marks) >= OPEN_MAX:
            raise LonghallError(Code.OVERLOADED, "open transactions have too many messages with deduplication ids")
        self._marks.add(mark)
        return identity

    def _place(self, record: Record, identity: str) -> None:
        queue, now_ms = self._queue, self._now_ms
        retry = queue.settings.retry
        if retry is not None and retry.sends:
            self._retry(record, identity, retry)
            return
        _, own_expires_ms, own_due_ms = peek_fields(record)
        due_ms = own_due_ms or due_of_send(queue, -1, now_ms)
        expires_ms = 0
        if own_expires_ms:
            queue.expiry = EXPIRES
        else:
            expires_ms = end_of_life(queue, -1, due_ms, now_ms)
        is_staged = due_ms > now_ms and not self._batch.header.is_transactional
        added_due_ms = due_ms if not own_due_ms else 0
        if identity or expires_ms or added_due_ms:
            record = ruled_record(record, identity, now_ms, expires_ms, added_due_ms)
            self.changed = True
        if is_staged:
            self.staged.append((due_ms, without_whole(record)))
        else:
            self.kept.append(record)

    def _retry(self, record: Record, identity: str, retry: RetryPolicy) -> None:
        """A record that failed once more: it waits, or it is dead."""
        queue, now_ms = self._queue, self._now_ms
        if self._batch.header.is_transactional:
            said = "a retry queue takes no transactional messages, because readers would see them before they are due"
            raise LonghallError(Code.INVALID_REQUEST, said)
        attempts = attempts_of(record) + 1
        if 0 < self._attempts_max <= attempts:
            self.dead.append((attempts, without_whole(record)))
            return
        due_ms = now_ms + retry_delay_ms(retry, attempts)
        failed = failed_record(record, attempts)
        self.changed = True
        if due_ms > now_ms:
            expires_ms = end_of_life(queue, -1, due_ms, now_ms) if not peek_fields(record)[1] else 0
            self.staged.append((due_ms, without_whole(ruled_record(failed, identity, now_ms, expires_ms, due_ms))))
        else:
            self.kept.append(failed)

    def batch_of_kept(self) -> bytes:
        """The batch of what is kept. That of an idempotent producer has gaps where records are not, so that it spans
        the same sequence numbers and a retry is recognised; it may have no records at all.
        """
        header = self._batch.header
        idempotent = header.producer_id >= 0
        records = self.kept
        if not idempotent:
            records = [Record(-1, one.timestamp_ms, one.key, one.value, one.headers) for one in records]
        base_offset = parse_header(self._batch.frame, self._batch.at).base_offset
        return build_batch(
            records,
            base_offset=base_offset,
            producer_id=header.producer_id,
            producer_epoch=header.producer_epoch,
            base_sequence=header.base_sequence,
            compression=header.compression,
            transactional=header.is_transactional,
            log_append_time=header.is_log_append_time,
            last_offset=base_offset + header.last_offset_delta if idempotent else -1,
            max_timestamp_ms=header.max_timestamp_ms,
        )

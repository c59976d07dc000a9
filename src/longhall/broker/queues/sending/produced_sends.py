"""Batches of Kafka producers for queues: the rules of the queue hold for them as for the messages of every other door.

A batch is accepted or refused as a whole. What is kept of it is appended to the partition that the producer chose, what
is delayed to the staging, in one atomic write. A batch without room waits in the line of its queue, in the order of
arrival, up to the producer's timeout; batches that arrive meanwhile stand behind it, so that sequences stay in order. A
connection with a waiting batch is not read, so a line has few batches of each connection, and the admission of the door
counts their bytes.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from functools import partial
from typing import Final, final

from longhall.broker.feature_gates import may_remember_produced
from longhall.broker.hall import EVENT_ROOM_BYTES, Hall
from longhall.broker.produced import ProducedBatch, SendWait, Sent
from longhall.broker.queues.dead_letters.dead_lettering import dead_letter_queue_of
from longhall.broker.queues.delays.staging import DelayStager
from longhall.broker.queues.running_queue import RunningQueue, owner_of
from longhall.broker.queues.sending.produced_records import ProducedRecords, RecordsRefused
from longhall.broker.queues.sending.room import decide_room, go_on
from longhall.broker.queues.write import together
from longhall.broker.send import RECORD_ERRORS_MAX, append, append_produced, check_producer
from longhall.errors import Code, LonghallError
from longhall.queues.envelope import dead_letter_record, sent_as
from longhall.queues.outcomes import ATTEMPTS, Overflow
from longhall.records.batch import build_batch, parse_header
from longhall.records.record import Record
from longhall.shards.shard import ONE

WAIT_SHARE: Final = 0.8  # Of the producer's timeout: the answer has to arrive before it gives up.
WAIT_S_MAX: Final = 60.0
TOGETHER_BYTES_MAX: Final = 4 * 1024 * 1024  # Of a batch and of what is staged of it, which are in one frame.
REPEATS_MAX: Final = 1024  # Answers to repeated batches of idempotent producers.

_log = logging.getLogger("longhall.queues")


@final
class _Waiting:
    """One batch in the line of a queue."""

    def __init__(self, batch: ProducedBatch, wait: SendWait, ends_s: float) -> None:
        self.batch = batch
        self.wait = wait
        self.ends_s = ends_s


@final
class ProducedSends:
    """The batches of Kafka producers for all queues of a hall."""

    def __init__(self, hall: Hall, stager: DelayStager) -> None:
        self._hall = hall
        self._stager = stager
        self._lines: dict[int, deque[_Waiting]] = {}  # By the number of the queue.
        self._repeats: dict[tuple[int, int, int], int] = {}  # By partition, producer and sequence: the first's offset.

    def send(self, batch: ProducedBatch) -> Sent:
        """Append the batch, refuse it, or let it wait."""
        queue = owner_of(batch.partition)
        assert queue is not None
        line = self._lines.get(queue.number)
        if line is not None:
            return self._stand_behind(line, batch)
        decided = self._try(queue, batch)
        if isinstance(decided, Sent):
            return decided
        line = self._lines[queue.number] = deque()
        sent = self._stand_behind(line, batch)
        self._hall.background.start("wait for room", partial(self._serve, queue, line))
        return sent

    # The line

    def _stand_behind(self, line: deque[_Waiting], batch: ProducedBatch) -> Sent:
        batch.frame = batch.frame[batch.at : batch.at + batch.header.size_bytes]  # The request's frame is freed.
        batch.at = 0
        wait_s = min(max(batch.timeout_ms, 0) / 1000 * WAIT_SHARE, WAIT_S_MAX)
        sent = Sent(None)
        sent.later = SendWait()
        line.append(_Waiting(batch, sent.later, asyncio.get_running_loop().time() + wait_s))
        return sent

    async def _serve(self, queue: RunningQueue, line: deque[_Waiting]) -> None:
        """Answer the batches of a line, one after the other, until it is empty."""
        while line:
            waiting = line[0]
            try:
                sent = await self._room_for(queue, waiting)
            except LonghallError as error:
                sent = self._refusal(waiting.batch, error)
            except OSError as error:
                _log.warning(
                    "a batch that waited for room could not be stored",
                    extra={"queue": queue.entry.name, "reason": str(error)},
                )
                sent = Sent(Code.STORAGE_FULL)
            line.popleft()
            if not line:
                self._lines.pop(queue.number, None)
            waiting.wait.complete(sent)

    async def _room_for(self, queue: RunningQueue, waiting: _Waiting) -> Sent:
        while True:
            if queue.removed or waiting.batch.partition.deleted:
                return Sent(Code.UNKNOWN_TOPIC)
            decided = self._try(queue, waiting.batch)
            if isinstance(decided, Sent):
                return decided
            if not await go_on(self._hall, queue, decided, waiting.ends_s):
                name = queue.entry.name
                return self._refusal(waiting.batch, LonghallError(Code.TIMED_OUT, f"Queue '{name}' stayed full."))

    # One batch

    def _try(self, queue: RunningQueue, batch: ProducedBatch) -> Sent | Overflow:
        hall = self._hall
        now_ms = hall.time.now_ms()
        if batch.partition.elsewhere:
            return Sent(Code.NOT_LEADER)
        if queue.removed:
            return Sent(Code.UNKNOWN_TOPIC)
        answered = check_producer(hall, batch, now_ms)
        if answered is not None:
            if answered.code is None:
                key = (batch.partition.lane, batch.header.producer_id, batch.header.base_sequence)
                answered.base_offset = self._repeats.get(key, answered.base_offset)
            return answered
        try:
            plan = ProducedRecords(queue, batch, now_ms, may_remember_produced(hall), self._attempts_max(queue))
            overflow = self._room(queue, plan) if plan.count else None
            if overflow is not None:
                return overflow
            return self._append(queue, batch, plan, now_ms)
        except LonghallError as error:
            return self._refusal(batch, error)

    def _attempts_max(self, queue: RunningQueue) -> int:
        letters = queue.settings.dead_letters
        return letters.attempts_max if letters is not None and dead_letter_queue_of(self._hall, queue) else 0

    def _room(self, queue: RunningQueue, plan: ProducedRecords) -> Overflow | None:
        settings = queue.settings
        beyond = 0 < settings.messages_max < plan.count or 0 < settings.bytes_max < plan.body_bytes
        if beyond and plan.count > 1:  # Producers that can split a batch do so.
            raise LonghallError(Code.MESSAGE_TOO_LARGE, f"the batch is larger than queue '{queue.entry.name}' may be")
        return decide_room(self._hall, queue, plan.count, plan.body_bytes)

    def _append(self, queue: RunningQueue, batch: ProducedBatch, plan: ProducedRecords, now_ms: int) -> Sent:
        hall = self._hall
        if not plan.changed:
            return append_produced(hall, batch, now_ms)
        idempotent = batch.header.producer_id >= 0
        staged = _build_staged(plan, batch.header.compression)
        frame = plan.batch_of_kept() if plan.kept or idempotent else b""
        staged_bytes = sum(len(one) for _, one in staged)
        if len(frame) + staged_bytes > TOGETHER_BYTES_MAX and staged:
            raise LonghallError(Code.MESSAGE_TOO_LARGE, "the batch is too large to be delayed")
        self._check_storage(batch, len(frame) + staged_bytes)
        sent = Sent(None, -1, batch.append_time_ms)
        with together(hall):
            if frame:
                kept = ProducedBatch(
                    batch.partition,
                    parse_header(frame, 0),
                    frame,
                    0,
                    batch.transactional_id,
                    batch.joins_transaction,
                    batch.connection,
                    batch.timeout_ms,
                    batch.append_time_ms,
                    batch.leader_only,
                )
                kept.account = batch.account
                sent = append_produced(hall, kept, now_ms)
                if sent.code is not None:
                    return sent
            for due_ms, one in staged:
                log = self._stager.log_for(queue, due_ms, now_ms)
                code = append(hall, log, parse_header(one, 0), one, 0, now_ms, message=False)
                if code is not None:  # The rest of the batch is appended: recovery drops both.
                    hall.halt(LonghallError(code, "a delayed message could not be stored"))
                    return Sent(code)
            self._bury(queue, plan, now_ms)
            if staged and hall.usage.meter is not None:
                hall.usage.meter.sent_by(batch.account, queue.entry.name, len(plan.staged), staged_bytes)
        if staged:
            queue.on_sent(len(plan.staged))
            self._stager.arm(queue)
        if plan.repeats and not plan.count:
            self._answer_repeat(batch, plan, sent)
        return sent

    def _bury(self, queue: RunningQueue, plan: ProducedRecords, now_ms: int) -> None:
        """Move the records without attempts left to the dead-letter queue. Inside the atomic write."""
        letters = dead_letter_queue_of(self._hall, queue) if plan.dead else None
        if letters is None:
            return
        name = queue.entry.name
        queue.deaths[ATTEMPTS] = queue.deaths.get(ATTEMPTS, 0) + len(plan.dead)
        for attempts, record in plan.dead:
            _, group, message_id, _ = sent_as(record)
            dead = dead_letter_record(record, message_id, now_ms, name, ATTEMPTS, attempts)
            letters.write(self._hall, dead, 0, group, now_ms)

    def _answer_repeat(self, batch: ProducedBatch, plan: ProducedRecords, sent: Sent) -> None:
        """A batch of nothing but repeats is answered with the offset of the first message, and its retry likewise."""
        first = plan.repeats[0]
        number = batch.partition.lane
        if first is None or first.lane != number:
            return
        sent.base_offset = first.sequence
        if batch.header.producer_id >= 0:
            if len(self._repeats) >= REPEATS_MAX:
                del self._repeats[next(iter(self._repeats))]
            self._repeats[number, batch.header.producer_id, batch.header.base_sequence] = first.sequence

    def _check_storage(self, batch: ProducedBatch, size_bytes: int) -> None:
        """Refuse before the atomic write what would be refused in its middle."""
        hall = self._hall
        options = batch.partition.options
        refusal = hall.refusal_for(options.in_sync_min, batch.leader_only or options.acknowledge == ONE)
        if refusal is not None:
            raise LonghallError(refusal)
        if hall.is_backed_up:
            hall.backlog.refusals += 1
            raise LonghallError(Code.COMMIT_BACKLOG)
        if hall.storage_full or hall.space_bytes < size_bytes or not hall.has_room(size_bytes + EVENT_ROOM_BYTES):
            raise LonghallError(Code.STORAGE_FULL, "the disk is full")

    def _refusal(self, batch: ProducedBatch, error: LonghallError) -> Sent:
        header = batch.header
        if header.producer_id >= 0 and error.retriable:
            now_ms = self._hall.time.now_ms()
            self._hall.refused.note(batch.partition.log.partition, header.producer_id, error.code, now_ms)
        named = error.records[:RECORD_ERRORS_MAX] if isinstance(error, RecordsRefused) else None
        return Sent(error.code, message=str(error), record_errors=named)


def _build_staged(plan: ProducedRecords, compression: int) -> list[tuple[int, bytes]]:
    """What is delayed, as batches: one for each due time."""
    by_due: dict[int, list[Record]] = {}
    for due_ms, record in plan.staged:
        unplaced = Record(-1, record.timestamp_ms, record.key, record.value, record.headers)
        by_due.setdefault(due_ms, []).append(unplaced)
    return [(due_ms, build_batch(records, compression=compression)) for due_ms, records in by_due.items()]

"""Arrivals: messages of another group's outbox are stored in a queue of this group, each once.

The queue remembers the last message of each group by stream and offset, in one entry with the message. A repeat, after
a lost reply or a failover of either side, is at or below it and is dropped. The reply waits for the commit, also that
of a repeat, because the source forgets what is confirmed.

    the target queue     the messages
    has no room          stay in the outbox, from the first without room on
    refuses a new one    for its size or its deduplication id: it is dropped, and counted by the log
"""

from __future__ import annotations

import logging
from typing import Final, final

from longhall.broker.feature_gates import check_outbox
from longhall.broker.hall import EVENT_ROOM_BYTES, Hall
from longhall.broker.queues.dead_letters.move_bounds import takes
from longhall.broker.queues.delays.staging import DelayStager
from longhall.broker.queues.running_queue import EXPIRES, RunningQueue
from longhall.broker.queues.sending.rules import (
    check_size,
    clear_bytes,
    due_of_send,
    identify,
    record_of,
    repeated_send,
)
from longhall.broker.queues.write import together, write_queue, write_records
from longhall.broker.waiting import committed
from longhall.errors import Code, LonghallError
from longhall.queues.envelope import EXPIRES as EXPIRES_HEADER
from longhall.queues.envelope import RANDOM_BYTES, new_message_id
from longhall.queues.events import Arrived
from longhall.queues.messages import Outgoing
from longhall.queues.outbox_events import OutboxBatch, OutboxEntry
from longhall.records.record import Record
from longhall.shards.shard import ONE

NOTHING_YET: Final = (-1, -1)
_REFUSALS: Final = frozenset({Code.MESSAGE_TOO_LARGE, Code.INVALID_REQUEST, Code.REPEATED_SEND})

Rows = list[tuple[int, OutboxEntry]]

_log = logging.getLogger("longhall.outbox")


async def take_in(hall: Hall, stager: DelayStager, queue: RunningQueue, batch: OutboxBatch) -> int:
    """Store a batch. Returns the first offset without room, or the offset behind the batch, when all is committed."""
    check_outbox(hall)
    _check_storage(hall, queue)
    arrival = _Arrival(hall, stager, queue, batch)
    behind = arrival.store()
    if arrival.staged:
        stager.arm(queue)
    await committed(hall, queue.shard)
    return behind


def _check_storage(hall: Hall, queue: RunningQueue) -> None:
    """Refuse before the atomic write what would be refused in its middle."""
    if queue.removed:
        raise LonghallError(Code.NOT_READY, f"Queue '{queue.entry.name}' is being deleted.")
    refusal = hall.refusal_for(queue.in_sync_min, queue.acknowledgers == ONE)
    if refusal is not None:
        raise LonghallError(refusal)
    if hall.is_backed_up:
        raise LonghallError(Code.COMMIT_BACKLOG)
    if hall.storage_full or not hall.has_room(2 * EVENT_ROOM_BYTES):
        raise LonghallError(Code.STORAGE_FULL, "the disk is full")


@final
class _Arrival:
    """One batch on its way into one queue."""

    def __init__(self, hall: Hall, stager: DelayStager, queue: RunningQueue, batch: OutboxBatch) -> None:
        self.staged = False
        self._hall = hall
        self._stager = stager
        self._queue = queue
        self._batch = batch

    def store(self) -> int:
        """Store what is new, as far as there is room. Returns the first offset without room."""
        hall, queue, batch = self._hall, self._queue, self._batch
        last = queue.arrivals.get(batch.source, NOTHING_YET)
        fresh = [row for row in batch.rows if (batch.stream, row[0]) > last]
        fitting = self._fitting(fresh)
        if fitting:
            with together(hall):
                try:
                    for _, entry in fresh[:fitting]:
                        self._write(entry)
                    at = fresh[fitting - 1][0]
                    arrived = Arrived(queue=queue.number, source=batch.source, stream=batch.stream, offset=at)
                    write_queue(hall, queue, [arrived])
                except LonghallError as error:
                    hall.halt(error)  # A part is appended: recovery drops it.
                    raise
        return fresh[fitting][0] if fitting < len(fresh) else batch.rows[-1][0] + 1

    def _fitting(self, rows: Rows) -> int:
        """The number of these messages, from the first on, that have room together."""
        size = 0
        for index, (_, entry) in enumerate(rows):
            size += len(entry.message.body) if entry.message is not None else len(entry.value or b"")
            if not takes(self._hall, self._queue, index + 1, size):
                return index
        return len(rows)

    def _write(self, entry: OutboxEntry) -> None:
        hall, queue = self._hall, self._queue
        now_ms = hall.time.now_ms()
        if entry.message is not None:
            self._send(entry.message, entry.message_id, now_ms)
            return
        record = Record(-1, entry.timestamp_ms, entry.key, entry.value, tuple(entry.headers))
        if any(name == EXPIRES_HEADER for name, _ in record.headers):
            queue.expiry = EXPIRES
        write_records(hall, queue.lane_for(entry.priority, entry.group), [record], now_ms, message=False)

    def _send(self, message: Outgoing, message_id: str, now_ms: int) -> None:
        """Store a new message by the rules of the queue."""
        hall, queue = self._hall, self._queue
        try:
            check_size(queue, clear_bytes(message))
            if queue.deduplicates and identify(queue, message) and repeated_send(queue, message, now_ms) is not None:
                return
        except LonghallError as error:
            if error.code not in _REFUSALS:
                raise
            _log.warning("a queue refused a message", extra={"queue": queue.entry.name, "reason": str(error)})
            return
        due_ms = due_of_send(queue, message.delay_ms, now_ms)
        message_id = message.message_id or message_id or new_message_id(hall.world.entropy.bytes(RANDOM_BYTES))
        record = record_of(queue, message, message_id, now_ms, due_ms)
        if due_ms:
            self.staged = True
            partition = self._stager.log_for(queue, due_ms, now_ms)
        else:
            partition = queue.lane_for(message.priority, message.group)
        write_records(hall, partition, [record], now_ms, message=False)
        queue.on_sent(1)

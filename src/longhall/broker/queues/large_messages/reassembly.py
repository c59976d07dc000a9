"""Reassembly of large messages on delivery: in one reply if they are small enough, else part by part.

A consumer gets the complete message or none: a record whose chunks are gone is removed, and one whose chunks cannot be
read now is withheld and redelivered.
"""

from __future__ import annotations

import hashlib
import logging
from typing import Final, final

from longhall.broker.fetch import read_log
from longhall.broker.hall import Hall
from longhall.broker.partition import Partition
from longhall.broker.queues.dead_letters.dead_lettering import dead_letter
from longhall.broker.queues.delivery.withheld_messages import Withheld
from longhall.broker.queues.running_queue import RunningQueue
from longhall.broker.queues.write import shard_of_whole
from longhall.broker.waiting import committed
from longhall.errors import Code, LonghallError
from longhall.queues.chunked_messages import ChunkedMessage
from longhall.queues.chunks import ChunkManifest, join
from longhall.queues.envelope import whole_of
from longhall.queues.messages import Delivery
from longhall.queues.outcomes import GONE, Candidate, Death, Given
from longhall.records.batch import read_records
from longhall.records.record import Record

JOINED_BYTES_MAX: Final = 16 * 1024 * 1024  # Of large messages in one reply; beyond it they are delivered in parts.
READ_BYTES: Final = 1024 * 1024

_log = logging.getLogger("longhall.queues")


@final
class Ration:
    """Bounds the bytes of large messages in one reply."""

    def __init__(self, queue: RunningQueue, kept_from_ms: int) -> None:
        self._queue = queue
        self._kept_from_ms = kept_from_ms
        self._taken_bytes = 0

    def peek(self, lane: int, offset: int, count: int) -> list[Candidate] | None:
        """The messages of the window; None, as if it were cold, where the next one exceeds the bound."""
        candidates = self._queue.window(lane).look(offset, count, self._kept_from_ms)
        if candidates is None:
            return candidates
        for at, candidate in enumerate(candidates):
            size = whole_of(candidate.payload)[1] if isinstance(candidate.payload, Record) else 0
            if size and self._taken_bytes and self._taken_bytes + size > JOINED_BYTES_MAX:
                return candidates[:at] or None
            self._taken_bytes += size
        return candidates


async def fill(
    hall: Hall, queue: RunningQueue, given: list[Given], deliveries: list[Delivery], consumer: str, in_parts: bool
) -> list[Delivery]:
    """The deliveries with the bodies of large messages; incomplete ones are removed.

    Unreadable messages are withheld; so are too large ones, unless the consumer can read parts.
    """
    filled: list[Delivery] = []
    left_bytes = JOINED_BYTES_MAX
    withheld = Withheld(hall, queue, consumer)
    for one, delivery in zip(given, deliveries, strict=True):
        record = one.candidate.payload
        assert isinstance(record, Record)
        name = whole_of(record)[0]
        whole = find_whole(hall, name, one.lane, record.offset) if name else None
        if name and whole is None:
            _remove(hall, queue, one)
            continue
        if withheld.stops(one):
            withheld.add(one)
            continue
        delivery.whole_bytes = 0
        if whole is not None and whole.size_bytes > left_bytes:
            if not in_parts:
                withheld.add(one)
                continue
            delivery.body = b""
            delivery.parts = whole.count
            delivery.whole_bytes = whole.size_bytes
            delivery.receipt = queue.receipts.encode(one.lane, record.offset, one.number, delivery.report_fate)
        elif whole is not None:
            try:
                delivery.body = await read_whole(hall, whole)
            except (OSError, LonghallError) as error:
                _log.warning("a large message cannot be read", extra={"queue": queue.entry.name, "reason": str(error)})
                withheld.add(one)
                continue
            left_bytes -= whole.size_bytes
        filled.append(delivery)
    if withheld.count:
        await committed(hall, queue.shard)  # Else a crash would count attempts that no consumer saw.
    return filled


def _remove(hall: Hall, queue: RunningQueue, given: Given) -> None:
    """Remove a record whose chunks are gone."""
    death = Death(given.lane, given.candidate.offset, GONE, given.attempts, given.first_ms, None)
    dead_letter(hall, queue, [death])


async def read_part(hall: Hall, queue: RunningQueue, receipt: str, number: int) -> bytes:
    """One part of a leased message, by its receipt."""
    verified = queue.receipts.verify(receipt)
    if isinstance(verified, Code):
        raise LonghallError(verified, "the receipt is of another queue")
    lane, offset, lease = verified
    held = queue.queue.lease_of(lane, offset) if lane in queue.lanes else None
    settles = queue.settings.delivery == "at-most-once"  # Then it is settled, and its parts are collected soon.
    if (held is None and not settles) or (held is not None and held[0] != lease):
        raise LonghallError(Code.RECEIPT_SUPERSEDED, "the message is settled, or another consumer has it")
    for messages in hall.chunked_messages:
        whole = messages.at((lane, offset))
        if whole is not None:
            return await _read_chunk(hall, whole, number)
    raise LonghallError(Code.INVALID_REQUEST, "the message has no parts")


def find_whole(hall: Hall, name: str, lane: int, offset: int) -> ChunkedMessage | None:
    """The large message of the record at this position."""
    shard = shard_of_whole(hall, name)
    whole = hall.chunked_messages[shard - 1].get(name) if shard else None
    return whole if whole is not None and (lane, offset) in whole.places else None


async def read_whole(hall: Hall, whole: ChunkedMessage) -> bytes:
    """The complete body. Concurrent reads are bounded, because each takes twice its size in memory."""
    async with hall.joins:
        chunks = [await _read_chunk(hall, whole, number) for number in range(whole.count)]
        return join(chunks, whole.size_bytes)


async def _read_chunk(hall: Hall, whole: ChunkedMessage, number: int) -> bytes:
    partition = hall.partitions.get(whole.parts)
    offset = whole.offset_of(number)
    if partition is None or offset < 0:
        raise LonghallError(Code.INVALID_REQUEST, f"the message has no part {number}")
    record = await _read_record(hall, partition, offset)
    return record.value or b""


async def _read_record(hall: Hall, partition: Partition, offset: int) -> Record:
    read = await read_log(hall, partition, offset, READ_BYTES, partition.high_watermark)
    if read.code is Code.STORAGE_DAMAGED:
        partition.report_damage(offset)
    if read.code is None and read.size_bytes:
        for record in read_records(b"".join(read.buffers), 0):
            if record.offset == offset:
                return record
    raise LonghallError(read.code or Code.STORAGE_DAMAGED, f"a part of a large message is missing at {offset}")


async def digest_of(hall: Hall, manifest: ChunkManifest) -> str:
    """The SHA-256 of the body of these chunks, for deduplication by content."""
    digest = hashlib.sha256()
    partition = hall.partitions[manifest.lane]
    for offset in manifest.offsets:
        digest.update((await _read_record(hall, partition, offset)).value or b"")
    return digest.hexdigest()

"""Large messages for readers of topics: a record whose body is stored in chunks is fetched with its whole body.

A batch with such records is rebuilt with its offsets, producer and epoch. The joined bodies of one reply are bounded:
what comes behind the bound is left out, and the reader fetches it next. A message above the bound cannot be one record
of a reply: its reader gets the stored note of its size. So does the reader of a message whose chunks are freed already.
"""

from __future__ import annotations

from typing import Final

from longhall.broker.fetch import PartitionFetch
from longhall.broker.hall import Hall
from longhall.broker.queues.large_messages.reassembly import find_whole, read_whole
from longhall.errors import Code, LonghallError
from longhall.log.segment_rewrite import rebuild_batch
from longhall.queues.chunked_messages import ChunkedMessage
from longhall.queues.envelope import joined_record, whole_of
from longhall.records.batch import BatchHeader, parse_header, read_records
from longhall.records.compression import NONE
from longhall.records.record import Record
from longhall.world.ports import Buffer

JOINED_BYTES_MAX: Final = 16 * 1024 * 1024  # Of large messages in one reply.


def has_large(hall: Hall, wanted: list[PartitionFetch]) -> bool:
    """True if some of the fetched partitions have records of large messages."""
    if not any(hall.chunked_messages):
        return False
    for one in wanted:
        if one.partition is not None and one.buffers:
            lane = one.partition.lane
            if any(messages.has_lane(lane) for messages in hall.chunked_messages):
                return True
    return False


def large_bytes_of(hall: Hall, batch: bytes, header: BatchHeader, lane: int) -> int:
    """The bytes of the large messages of a batch that are joined; 0 if it has none."""
    if not any(hall.chunked_messages) or header.is_control:
        return 0
    return sum(whole.size_bytes for whole in _large_of(hall, batch, header, lane).values())


async def join_batch(hall: Hall, batch: bytes, header: BatchHeader, lane: int) -> bytes:
    """One batch with the whole bodies of its large messages. Raises LonghallError if one cannot be read."""
    return await _rebuilt(hall, batch, header, _large_of(hall, batch, header, lane))


async def join_large(hall: Hall, wanted: list[PartitionFetch]) -> None:
    """Put the whole bodies of large messages into each result."""
    left_bytes = JOINED_BYTES_MAX
    for one in wanted:
        if one.partition is None or not one.buffers or not has_large(hall, [one]):
            continue
        batches, used_bytes = await _joined(hall, b"".join(one.buffers), one.partition.lane, left_bytes)
        left_bytes = max(0, left_bytes - used_bytes)
        one.buffers = batches
        one.size_bytes = sum(len(batch) for batch in batches)


async def _joined(hall: Hall, data: bytes, lane: int, left_bytes: int) -> tuple[list[Buffer], int]:
    """The batches with whole bodies, and the bytes of these. Ends before a batch that does not fit any more."""
    batches: list[Buffer] = []
    used_bytes = 0
    at = 0
    while at < len(data):
        header = parse_header(data, at)
        batch = data[at : at + header.size_bytes]
        at += header.size_bytes
        large = {} if header.is_control else _large_of(hall, batch, header, lane)
        size_bytes = sum(whole.size_bytes for whole in large.values())
        if not size_bytes:
            batches.append(batch)
            continue
        if used_bytes + size_bytes > left_bytes and (used_bytes or left_bytes < JOINED_BYTES_MAX):
            break
        batches.append(await _rebuilt(hall, batch, header, large))
        used_bytes += size_bytes
    return batches, used_bytes


def _large_of(hall: Hall, batch: bytes, header: BatchHeader, lane: int) -> dict[int, ChunkedMessage]:
    """The large messages of a batch that fit into a reply, by offset."""
    offsets = range(header.base_offset, header.next_offset)
    if not any(messages.at((lane, offset)) is not None for messages in hall.chunked_messages for offset in offsets):
        return {}
    try:
        records = read_records(batch, 0)
    except LonghallError:
        return {}
    found: dict[int, ChunkedMessage] = {}
    for record in records:
        name = whole_of(record)[0]
        whole = find_whole(hall, name, lane, record.offset) if name else None
        if whole is not None and whole.size_bytes <= JOINED_BYTES_MAX:
            found[record.offset] = whole
    return found


async def _rebuilt(hall: Hall, batch: bytes, header: BatchHeader, large: dict[int, ChunkedMessage]) -> bytes:
    records: list[Record] = []
    for record in read_records(batch, 0):
        whole = large.get(record.offset)
        if whole is not None:
            try:
                record = joined_record(record, await read_whole(hall, whole))
            except OSError as error:
                raise LonghallError(Code.STORAGE_DAMAGED, str(error)) from None
        records.append(record)
    horizon_ms = header.base_timestamp_ms if header.has_delete_horizon else -1
    return rebuild_batch(header, records, NONE, horizon_ms)

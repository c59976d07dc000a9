"""Offset lookup: the first offset, the last, or the first at or after a time."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Final

from longhall.broker.fetch import PartitionFetch, check_epoch, read_log, supply
from longhall.broker.hall import Hall
from longhall.broker.partition import Partition
from longhall.errors import Code, LonghallError
from longhall.log.segment import Segment
from longhall.log.segment_reads import Cold
from longhall.records.batch import BatchHeader, parse_header, read_records

LATEST: Final = -1
EARLIEST: Final = -2
NEWEST: Final = -3  # The record with the highest timestamp.
EARLIEST_LOCAL: Final = -4
LATEST_TIERED: Final = -5
EARLIEST_PENDING_UPLOAD: Final = -6

SCAN_BYTES: Final = 256 * 1024

Place = tuple[int, int, int]  # Offset, timestamp, leader epoch.


async def look_up_offset(
    hall: Hall, partition: Partition, timestamp_ms: int, read_committed: bool, leader_epoch: int
) -> Place | None:
    """The position of a timestamp, or of a special value such as LATEST; None if there is none."""
    code = check_epoch(partition, leader_epoch)
    if code is not None:
        raise LonghallError(code)
    log = partition.log
    limit = partition.last_stable_offset if read_committed else partition.high_watermark
    if timestamp_ms == LATEST:
        return limit, -1, partition.epoch
    if timestamp_ms in (EARLIEST, EARLIEST_LOCAL):
        return log.start_offset, -1, log.epochs.epoch_at(log.start_offset)
    if timestamp_ms in (LATEST_TIERED, EARLIEST_PENDING_UPLOAD):
        return None  # There is no remote tier.
    if timestamp_ms < 0 and timestamp_ms != NEWEST:
        raise LonghallError(Code.INVALID_REQUEST, "a timestamp must not be negative")
    try:
        if timestamp_ms == NEWEST:
            newest_ms = await _newest(hall, partition, limit)
            return await _first_at(hall, partition, newest_ms, limit) if newest_ms >= 0 else None
        return await _first_at(hall, partition, timestamp_ms, limit)
    except OSError as error:
        raise LonghallError(Code.STORAGE_DAMAGED, f"a segment cannot be read: {error.strerror or error}") from None


async def _first_at(hall: Hall, partition: Partition, timestamp_ms: int, limit: int) -> Place | None:
    """Scan batches from the index position on, and search the first batch that reaches the time."""
    log = partition.log
    hall.flush_tail(partition)
    segment = log.segment_for_timestamp(timestamp_ms)
    if segment is None:
        return None
    offset = await _offset_to_scan_for(hall, partition, segment, timestamp_ms)
    async for header, data, at in _batches(hall, partition, offset, limit):
        if header.max_timestamp_ms >= timestamp_ms and not header.is_control:
            if header.is_sealed:  # Times of single records are ciphertext: the batch answers for them.
                return max(header.base_offset, log.start_offset), header.max_timestamp_ms, header.leader_epoch
            for record in read_records(data, at):
                if record.timestamp_ms >= timestamp_ms and record.offset >= log.start_offset:
                    return record.offset, record.timestamp_ms, header.leader_epoch
    return None


async def _newest(hall: Hall, partition: Partition, limit: int) -> int:
    """The highest timestamp of the records before `limit`; -1 if there is none. Markers have timestamps too, and do not
    count: where the newest timestamp of a segment may be that of a marker, its batches are read from the end, until the
    index shows that no earlier one is newer.
    """
    log = partition.log
    hall.flush_tail(partition)
    newest_ms = -1
    for segment in sorted(log.segments, key=_newest_first):
        if segment.max_timestamp_ms <= newest_ms:
            break
        end = min(segment.next_offset, limit)
        while end > max(segment.base_offset, log.start_offset):
            await _offset_to_scan_for(hall, partition, segment, 0)
            index = segment.index
            if index is None or not len(index):  # The cleaner has replaced the segment, or left nothing of it.
                break
            relative = index.start_for_offset(end - 1 - segment.base_offset)
            before_ms = index.timestamp_for_offset(relative)  # Of everything before, and of the batch there.
            begin = max(segment.base_offset + relative, log.start_offset)
            async for header, _, _ in _batches(hall, partition, begin, end):
                if not header.is_control:
                    newest_ms = max(newest_ms, header.max_timestamp_ms)
            if before_ms <= newest_ms:
                break
            end = begin
            await asyncio.sleep(0)
    return newest_ms


def _newest_first(segment: Segment) -> int:
    return -segment.max_timestamp_ms


async def _offset_to_scan_for(hall: Hall, partition: Partition, segment: Segment, timestamp_ms: int) -> int:
    """The offset from which a scan finds the first record at or after this time. The index is loaded afterwards."""
    log = partition.log
    wanted = PartitionFetch(partition, 0, SCAN_BYTES, -1)
    place = log.offset_to_scan_for(segment, timestamp_ms, None)
    while isinstance(place, Cold):
        place = log.offset_to_scan_for(segment, timestamp_ms, await supply(hall, wanted, place))
    return place


async def _batches(
    hall: Hall, partition: Partition, offset: int, limit: int
) -> AsyncIterator[tuple[BatchHeader, bytes, int]]:
    """The batches from `offset` on that begin before `limit`: each with the bytes that it is in, and where."""
    while offset < limit:
        result = await read_log(hall, partition, offset, SCAN_BYTES, limit)
        if result.code is Code.STORAGE_DAMAGED:
            partition.report_damage(offset)
        if result.code is not None:
            raise LonghallError(result.code)
        if not result.size_bytes:
            return
        data = b"".join(result.buffers)
        at = 0
        while at < len(data):
            header = parse_header(data, at)
            yield header, data, at
            offset = header.next_offset
            at += header.size_bytes

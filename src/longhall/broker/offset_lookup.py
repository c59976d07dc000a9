"""Offset lookup: the first offset, the last, or the first at or after a time."""

from __future__ import annotations

from typing import Final

from longhall.broker.fetch import PartitionFetch, check_epoch, supply
from longhall.broker.hall import Hall
from longhall.broker.partition import Partition
from longhall.errors import Code, LonghallError
from longhall.log.segment_reads import Cold, Supplied
from longhall.records.batch import parse_header, read_records

LATEST: Final = -1
EARLIEST: Final = -2
NEWEST: Final = -3  # The record with the highest timestamp.
EARLIEST_LOCAL: Final = -4
LATEST_TIERED: Final = -5

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
        return limit, -1, partition.shard.epoch
    if timestamp_ms in (EARLIEST, EARLIEST_LOCAL):
        return log.start_offset, -1, log.epochs.epoch_at(log.start_offset)
    if timestamp_ms == LATEST_TIERED:
        return None
    if timestamp_ms == NEWEST:
        times = [segment.max_timestamp_ms for segment in log.segments if segment.next_offset > log.start_offset]
        if not times or max(times) < 0:
            return None
        timestamp_ms = max(times)
    if timestamp_ms < 0:
        raise LonghallError(Code.INVALID_REQUEST, "a timestamp must not be negative")
    try:
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
    wanted = PartitionFetch(partition, 0, SCAN_BYTES, -1)
    supplied: Supplied | None = None
    place = log.offset_to_scan_for(segment, timestamp_ms, None)
    while isinstance(place, Cold):
        supplied = await supply(hall, wanted, place)
        place = log.offset_to_scan_for(segment, timestamp_ms, supplied)
    offset = place
    supplied = None
    while offset < limit:
        result = log.read(offset, SCAN_BYTES, limit, supplied)
        if result.cold is not None:
            supplied = await supply(hall, wanted, result.cold)
            continue
        if result.code is Code.STORAGE_DAMAGED:
            partition.report_damage(offset)
        if result.code is not None:
            raise LonghallError(result.code)
        if not result.size_bytes:
            return None
        data = b"".join(result.buffers)
        at = 0
        while at < len(data):
            header = parse_header(data, at)
            if header.max_timestamp_ms >= timestamp_ms and not header.is_control:
                for record in read_records(data, at):
                    if record.timestamp_ms >= timestamp_ms and record.offset >= log.start_offset:
                        return record.offset, record.timestamp_ms, header.leader_epoch
            offset = header.next_offset
            at += header.size_bytes
        supplied = None
    return None

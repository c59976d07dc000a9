"""Reads of the log of an outbox, from the disk if needed."""

from __future__ import annotations

from typing import Final

from longhall.broker.fetch import read_log
from longhall.broker.hall import Hall
from longhall.broker.partition import Partition
from longhall.errors import Code, LonghallError
from longhall.queues.outbox_events import OutboxEntry, entry_decoder
from longhall.records.batch import parse_header, read_records

READ_BYTES: Final = 256 * 1024


async def read_entries(
    hall: Hall, partition: Partition, offset: int, count_max: int, bytes_max: int
) -> list[tuple[int, OutboxEntry]]:
    """Committed messages from `offset` on, at least one. NOT_READY while the first is under repair."""
    rows: list[tuple[int, OutboxEntry]] = []
    size_bytes = 0
    while len(rows) < count_max and size_bytes < bytes_max:
        data = await _read(hall, partition, offset)
        at = 0
        while at < len(data):
            header = parse_header(data, at)
            for record in read_records(data, at):
                if record.offset >= offset and len(rows) < count_max and size_bytes < bytes_max:
                    value = record.value or b""
                    size_bytes += len(value)
                    rows.append((record.offset, entry_decoder.decode(value)))
            at += header.size_bytes
        if not data:
            break
        offset = rows[-1][0] + 1
    if not rows:
        raise LonghallError(Code.NOT_READY, f"the outbox cannot be read at {offset}")
    return rows


async def _read(hall: Hall, partition: Partition, offset: int) -> bytes:
    """Batches from `offset` on; empty at the end, and where they are damaged."""
    if offset >= partition.high_watermark:
        return b""
    read = await read_log(hall, partition, offset, READ_BYTES, partition.high_watermark)
    if read.code is Code.STORAGE_DAMAGED:
        partition.report_damage(offset)
    return b"" if read.code is not None else b"".join(read.buffers)

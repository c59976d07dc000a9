"""The tail of a partition: batches that are in memory, because their segment is written later."""

from __future__ import annotations

from bisect import bisect_right

from longhall.log.segment import Segment
from longhall.log.segment_reads import Read
from longhall.world.ports import Buffer

Tail = list[tuple[int, bytes, Segment]]  # Base offset, batch, its segment.


def parts_of(tail: Tail, segment: Segment) -> list[bytes]:
    """The batches of one segment at the start of the tail."""
    parts: list[bytes] = []
    for _, stored, owner in tail:
        if owner is not segment:
            break
        parts.append(stored)
    return parts


def read_tail(tail: Tail, offset: int, bytes_max: int, limit_offset: int) -> Read:
    """Batches from the one with `offset` on, below `limit_offset`; at least one, however large."""
    result = Read(None)
    at = max(bisect_right(tail, offset, key=_base_of) - 1, 0)
    buffers: list[Buffer] = []
    size = 0
    for index in range(at, len(tail)):
        base_offset, stored, _ = tail[index]
        if base_offset >= limit_offset or (buffers and size + len(stored) > bytes_max):
            break
        buffers.append(stored)
        size += len(stored)
    result.take(buffers, size)
    return result


def add_tail(result: Read, tail: Tail, bytes_max: int, limit_offset: int) -> None:
    """Add the batches of the tail, which follow those of the result, up to `bytes_max`."""
    buffers = result.buffers[:]
    size = result.size_bytes
    for base_offset, stored, _ in tail:
        if base_offset >= limit_offset or size + len(stored) > bytes_max:
            break
        buffers.append(stored)
        size += len(stored)
    if size > result.size_bytes:
        result.take(buffers, size)


def _base_of(entry: tuple[int, bytes, Segment]) -> int:
    return entry[0]

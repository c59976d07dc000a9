"""The sparse index of one segment: where to start reading for an offset or a time.

Only some batches have an entry (the caller chooses how many): the offset relative to the segment's base, the position
in the file, and the newest timestamp of all batches up to it. Offsets and positions ascend and timestamps never
decrease, so each lookup is one binary search. It returns a position to scan from, never one after the target.

The file is a cache. Its checksum covers all of it; a damaged file is refused and rebuilt by scanning the segment. All
numbers are little-endian:

    0       4         6          8            16            24           32               40        48
    +-------+---------+----------+------------+-------------+------------+----------------+---------+---------
    | LHIX  | version | zero     | size of    | next offset | newest     | offset of the  | records | batches
    |       | u16 = 1 | u16      | segment i64|          i64| time    i64| newest      i64|      i64|      i64
    +-------+---------+----------+------------+-------------+------------+----------------+---------+---------
    56       60
    +--------+-----------------+------------------+-------------------+--------+
    | n  u32 | n offsets, u32  | n positions, u32 | n timestamps, i64 | crc u32|     CRC32C of everything before it
    +--------+-----------------+------------------+-------------------+--------+

Unknown numbers of the summary are -1. This module does not read files.
"""

from __future__ import annotations

import struct
import sys
from array import array
from bisect import bisect_left, bisect_right
from typing import Final, final

from longhall.errors import Code, LonghallError
from longhall.records.batch import BatchHeader
from longhall.records.crc import crc_of, crc_of_parts

MAGIC: Final = b"LHIX"
VERSION: Final = 1
UINT32_MAX: Final = 0xFFFFFFFF

_HEADER: Final = struct.Struct("<4sHHqqqqqqI")
_CRC: Final = struct.Struct("<I")
_ENTRY_BYTES: Final = 16
_SWAPPED: Final[bool] = sys.byteorder != "little"


@final
class Summary:
    """Totals of the segment's first `size_bytes`, the part that the index covers."""

    def __init__(
        self,
        size_bytes: int,
        next_offset: int,
        max_timestamp_ms: int = -1,
        max_timestamp_offset: int = -1,
        record_count: int = -1,
        batch_count: int = -1,
    ) -> None:
        self.size_bytes = size_bytes
        self.next_offset = next_offset
        self.max_timestamp_ms = max_timestamp_ms
        self.max_timestamp_offset = max_timestamp_offset  # Last offset of the first batch with the newest time.
        self.record_count = record_count
        self.batch_count = batch_count


@final
class Index:
    """Entries in three arrays, sixteen bytes each."""

    def __init__(self) -> None:
        self._offsets: array[int] = array("I")
        self._positions: array[int] = array("I")
        self._timestamps: array[int] = array("q")

    def __len__(self) -> int:
        return len(self._offsets)

    def append(self, relative_offset: int, position: int, max_timestamp_ms: int) -> None:
        """Add an entry for a batch. The timestamp is the newest of all batches up to and including this one."""
        assert 0 <= relative_offset <= UINT32_MAX, "a segment spans at most 32 bits of offsets"
        assert 0 <= position <= UINT32_MAX, "a segment has at most 32 bits of bytes"
        if self._offsets:
            assert relative_offset > self._offsets[-1], "offsets ascend"
            assert position > self._positions[-1], "positions ascend"
            # The timestamp of an earlier entry may be an estimate that is too high; timestamps must not decrease.
            max_timestamp_ms = max(max_timestamp_ms, self._timestamps[-1])
        self._offsets.append(relative_offset)
        self._positions.append(position)
        self._timestamps.append(max_timestamp_ms)

    def position_for_offset(self, relative_offset: int) -> int:
        """The position to scan from for this offset: that of the last entry at or before it."""
        at = bisect_right(self._offsets, relative_offset)
        return self._positions[at - 1] if at else 0

    def start_for_offset(self, relative_offset: int) -> int:
        """The relative offset of the batch at `position_for_offset`."""
        at = bisect_right(self._offsets, relative_offset)
        return self._offsets[at - 1] if at else 0

    def position_for_timestamp(self, timestamp_ms: int) -> int:
        """The position to scan from for the first batch whose newest timestamp is at or after this one."""
        at = bisect_left(self._timestamps, timestamp_ms)
        return self._positions[at - 1] if at else 0

    def offset_for_timestamp(self, timestamp_ms: int) -> int:
        """The relative offset of the batch at `position_for_timestamp`."""
        at = bisect_left(self._timestamps, timestamp_ms)
        return self._offsets[at - 1] if at else 0

    def timestamp_for_offset(self, relative_offset: int) -> int:
        """The approximate time of this offset: the newest timestamp up to the last entry at or before it."""
        at = bisect_right(self._offsets, relative_offset)
        return self._timestamps[max(at - 1, 0)]

    def last_position(self) -> int:
        """The position of the last entry; -1 if there is none."""
        return self._positions[-1] if self._positions else -1

    def cut(self, size_bytes: int) -> None:
        """Remove the entries of batches at or after `size_bytes`, where the segment now ends."""
        at = bisect_left(self._positions, size_bytes)
        del self._offsets[at:]
        del self._positions[at:]
        del self._timestamps[at:]

    def encode(self, summary: Summary) -> bytes:
        """The content of the index file."""
        head = _HEADER.pack(
            MAGIC,
            VERSION,
            0,
            summary.size_bytes,
            summary.next_offset,
            summary.max_timestamp_ms,
            summary.max_timestamp_offset,
            summary.record_count,
            summary.batch_count,
            len(self._offsets),
        )
        columns = _to_bytes(self._offsets) + _to_bytes(self._positions) + _to_bytes(self._timestamps)
        return b"".join((head, columns, _CRC.pack(crc_of_parts(head, columns))))


@final
class IndexBuilder:
    """Builds the index and the summary of a segment from all its batches, in order."""

    def __init__(self, base_offset: int, interval_bytes: int) -> None:
        self.index = Index()
        self.next_offset = base_offset
        self.max_timestamp_ms = -1
        self.max_timestamp_offset = -1
        self.record_count = 0
        self.batch_count = 0
        self._base_offset = base_offset
        self._interval_bytes = interval_bytes

    def note(self, position: int, header: BatchHeader) -> None:
        """Take the batch at `position` into account."""
        if header.max_timestamp_ms > self.max_timestamp_ms:
            self.max_timestamp_ms = header.max_timestamp_ms
            self.max_timestamp_offset = header.last_offset
        last = self.index.last_position()
        if last < 0 or position - last >= self._interval_bytes:
            self.index.append(header.base_offset - self._base_offset, position, self.max_timestamp_ms)
        self.next_offset = header.next_offset
        self.record_count += header.record_count
        self.batch_count += 1

    def summary(self, size_bytes: int) -> Summary:
        """The summary of a segment of `size_bytes`."""
        return Summary(
            size_bytes,
            self.next_offset,
            self.max_timestamp_ms,
            self.max_timestamp_offset,
            self.record_count,
            self.batch_count,
        )

    def encode(self, size_bytes: int) -> bytes:
        """The content of the index file."""
        return self.index.encode(self.summary(size_bytes))


def decode_index(data: bytes) -> tuple[Index, Summary]:
    """Decode an index file. A damaged one, or one of another version, is refused as damaged: rebuild it."""
    if len(data) < _HEADER.size + _CRC.size:
        raise LonghallError(Code.STORAGE_DAMAGED, "an index file is truncated")
    end = len(data) - _CRC.size
    if _CRC.unpack_from(data, end)[0] != crc_of(data, 0, end):
        raise LonghallError(Code.STORAGE_DAMAGED, "the checksum of an index file is wrong")
    magic, version, _, size_bytes, next_offset, newest_ms, newest_offset, records, batches, count = _HEADER.unpack_from(
        data
    )
    if magic != MAGIC or version != VERSION or count * _ENTRY_BYTES != end - _HEADER.size:
        raise LonghallError(Code.STORAGE_DAMAGED, "an index file has an unknown format")
    index = Index()
    at = _HEADER.size
    _fill(index._offsets, data[at : at + 4 * count])
    _fill(index._positions, data[at + 4 * count : at + 8 * count])
    _fill(index._timestamps, data[at + 8 * count : end])
    return index, Summary(size_bytes, next_offset, newest_ms, newest_offset, records, batches)


def _to_bytes(column: array[int]) -> bytes:
    if _SWAPPED:
        column = column[:]
        column.byteswap()
    return column.tobytes()


def _fill(column: array[int], data: bytes) -> None:
    column.frombytes(data)
    if _SWAPPED:
        column.byteswap()

"""The state of one segment of a partition: numbers, and its index once it was needed."""

from __future__ import annotations

from typing import Any, Final, final

from longhall.log.index import Index

INDEX_INTERVAL_BYTES: Final = 32 * 1024

SegmentNumbers = tuple[int, int, int, int, int]


@final
class Segment:
    """A run of batches in one file.

    `size_bytes` counts every batch of the segment; `written_bytes` those whose bytes are in the file already (the
    others are in the partition's tail).
    """

    def __init__(self, base_offset: int, created_ms: int) -> None:
        self.base_offset = base_offset
        self.next_offset = base_offset
        self.size_bytes = 0
        self.written_bytes = 0
        self.noted_bytes = 0  # Writes before this position were reported to `recent_writes`.
        self.max_timestamp_ms = -1
        self.created_ms = created_ms
        self.index: Index | None = None
        self.index_saved_bytes = 0  # This much of the segment is covered by an index on the disk.
        self._indexed_bytes = 0  # Batches before this position are covered by the index.

    def note(self, offset: int, next_offset: int, size_bytes: int, max_timestamp_ms: int) -> None:
        """Note a batch at the end of the segment; the index must be loaded."""
        index = self.index
        assert index is not None
        position = self.size_bytes
        if max_timestamp_ms > self.max_timestamp_ms:
            self.max_timestamp_ms = max_timestamp_ms
        # After a gap there is always an entry: a scan may not get across damaged bytes in the gap.
        if position == 0 or position >= self._indexed_bytes + INDEX_INTERVAL_BYTES or offset != self.next_offset:
            index.append(offset - self.base_offset, position, self.max_timestamp_ms)
            self._indexed_bytes = position
        self.size_bytes = position + size_bytes
        self.next_offset = next_offset

    def use_index(self, index: Index, indexed_bytes: int) -> None:
        """Use a loaded index, which covers the segment up to `indexed_bytes`."""
        self.index = index
        self._indexed_bytes = indexed_bytes

    def numbers(self) -> SegmentNumbers:
        """The segment as plain values, for `from_numbers`."""
        return (self.base_offset, self.next_offset, self.size_bytes, self.max_timestamp_ms, self.created_ms)


def base_of(segment: Segment) -> int:
    """The key by which segments are ordered."""
    return segment.base_offset


def from_numbers(numbers: Any) -> Segment:
    """A segment whose bytes are all in its file; MessagePack returns the numbers as a list."""
    segment = Segment(int(numbers[0]), int(numbers[4]))
    segment.next_offset = int(numbers[1])
    segment.size_bytes = int(numbers[2])
    segment.written_bytes = int(numbers[2])
    segment.noted_bytes = int(numbers[2])
    segment.max_timestamp_ms = int(numbers[3])
    return segment

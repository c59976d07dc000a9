"""Fetched bytes as Arrow record batches of about a megabyte: whole, committed messages of the range.

Uncompressed bodies are read where they lie, in the response of the broker; others are decompressed and joined. Markers
are never rows. A sealed batch is one row, for readers that take such rows, and an error for others. For a reader of
committed messages aborted ones are no rows: the broker names the producers and the offsets from which their messages
are skipped, until their marker ends the transaction.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final, final

from longhall.errors import Code, LonghallError
from longhall.pipeline.arrow_table import Shape, wants_of
from longhall.records.batch import HEADER_BYTES, BatchHeader, check_batch, parse_header
from longhall.records.columns import NOT_STAMPED, Columns
from longhall.records.compression import NONE, decompress
from longhall.records.control import parse_marker
from longhall.records.varint import INT64_MAX, INT64_MIN

CHUNK_BYTES: Final = 1024 * 1024  # Of keys and values in one record batch, or the batch that goes beyond it.
CHUNK_ROWS_MAX: Final = 65_536
OPENED_BYTES_MAX: Final = 128 * 1024 * 1024
PARTS_BYTES_MAX: Final = 16 * 1024 * 1024  # Decompressed bodies that are held for one record batch, and the last one.


@final
class PartitionDecoder:
    """The decoder of one partition from `start` to `end`, response by response. `next_offset` is where to continue."""

    def __init__(
        self,
        shape: Shape,
        start: int,
        end: int,
        first_ms: int = INT64_MIN,
        last_ms: int = INT64_MAX,
        *,
        takes_sealed: bool = False,
    ) -> None:
        self.next_offset = start
        self._takes_sealed = takes_sealed
        self._sealed: list[tuple[int, int, bytes]] = []  # Offset, time and bytes of sealed batches.
        self._sealed_bytes = 0
        self._shape = shape
        self._wants = wants_of(shape.names)
        self._end = end
        self._start = start
        self._times = (first_ms, last_ms)
        self._skipping: set[int] = set()  # Producers whose transaction was aborted and has not ended yet.
        self._columns = self._empty()
        self._parts: list[bytes] = []  # Decompressed bodies of the chunk under way.
        self._parts_bytes = 0
        self._timestamp_type = 0

    def skip_to(self, offset: int) -> None:
        """Continue at a later offset and return nothing before it."""
        self.next_offset = self._start = offset
        self._columns = self._empty()
        self._sealed = []
        self._sealed_bytes = 0

    def open(
        self, records: bytes, aborted: list[tuple[int, int]], begin: int = 0, end: int | None = None
    ) -> Iterator[Any]:
        """Record batches of the batches in `records[begin:end]`, the last of which may be cut off."""
        waiting = sorted(aborted, key=lambda each: each[1])
        at = begin
        limit = len(records) if end is None else end
        while limit - at >= HEADER_BYTES and self.next_offset < self._end:
            size = parse_header(records, at).size_bytes
            if limit - at < size:
                break
            header = check_batch(records, at, limit)
            while waiting and waiting[0][1] <= header.last_offset:
                self._skipping.add(waiting.pop(0)[0])
            if self._is_wanted(records, at, header):
                if self._must_be_apart(header):
                    yield from self._take(records)
                if header.is_sealed:
                    self._add_sealed(records[at : at + size], header)
                else:
                    self._add(records, at, header)
                if self._is_full():
                    yield from self._take(records)
            self.next_offset = max(self.next_offset, header.next_offset)
            at += size
        # What stands in this answer cannot wait for the next one; what was decompressed could, but would be late.
        yield from self._take(records)

    def _is_wanted(self, records: bytes, at: int, header: BatchHeader) -> bool:
        if header.is_control:
            if header.producer_id in self._skipping:
                marker = parse_marker(records, at, header)
                if marker is not None and not marker.commit:
                    self._skipping.discard(header.producer_id)
            return False
        if header.is_transactional and header.producer_id in self._skipping:
            return False
        if header.max_timestamp_ms < self._times[0] and header.max_timestamp_ms >= 0:
            return False
        return header.last_offset >= self._start and header.base_offset < self._end and header.record_count > 0

    def _must_be_apart(self, header: BatchHeader) -> bool:
        """True if a batch cannot join the chunk: it has another kind of timestamp, or one is compressed and the other
        is not.
        """
        if header.is_sealed != bool(self._sealed):
            return True
        if header.is_sealed or (self._columns.rows == 0 and not self._parts):
            return False
        return (header.compression != NONE) != bool(self._parts) or self._timestamp_type != header.is_log_append_time

    def _is_full(self) -> bool:
        columns = self._columns
        if self._sealed:
            return self._sealed_bytes >= CHUNK_BYTES
        return columns.bytes >= CHUNK_BYTES or columns.rows >= CHUNK_ROWS_MAX or self._parts_bytes >= PARTS_BYTES_MAX

    def _add(self, records: bytes, at: int, header: BatchHeader) -> None:
        self._timestamp_type = int(header.is_log_append_time)
        body, begin, end, shift = records, at + HEADER_BYTES, at + header.size_bytes, 0
        if header.compression != NONE:
            body = decompress(header.compression, records[begin:end], OPENED_BYTES_MAX)
            begin, end, shift = 0, len(body), self._parts_bytes
            self._parts.append(body)
            self._parts_bytes += len(body)
        self._columns.add(
            body,
            begin,
            end,
            header.record_count,
            header.base_offset,
            header.last_offset,
            header.base_timestamp_ms,
            header.max_timestamp_ms if header.is_log_append_time else NOT_STAMPED,
            shift,
        )

    def _add_sealed(self, batch: bytes, header: BatchHeader) -> None:
        """Note a batch as one row. A range that begins within it has it, too; its reader drops the rest."""
        if not self._takes_sealed:
            raise LonghallError(Code.SEALED, "a batch is sealed, and the broker has not opened it")
        self._sealed.append((max(header.base_offset, self._start), header.max_timestamp_ms, batch))
        self._sealed_bytes += len(batch)

    def _take(self, records: bytes) -> Iterator[Any]:
        if self._sealed:
            yield self._shape.sealed_rows(self._sealed)
            self._sealed = []
            self._sealed_bytes = 0
        if self._columns.rows:
            data = records
            if self._parts:
                data = self._parts[0] if len(self._parts) == 1 else b"".join(self._parts)
            yield self._shape.batch(self._columns, data, self._timestamp_type)
        self._columns = self._empty()
        self._parts = []
        self._parts_bytes = 0

    def _empty(self) -> Columns:
        return Columns(self._wants, self._start, self._end, *self._times)

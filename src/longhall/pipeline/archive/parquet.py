"""Parquet files of an archive, written and read.

The same messages always become the same bytes: row groups and files are cut by the messages alone, not by how they
arrived. A sealed batch is one row, of the timestampType SEALED_BATCH. The footer of a file says what it holds, so that
a file from before a crash is recognised. A file stays within one day (UTC, of its first message) unless days alternate.
"""

from __future__ import annotations

import datetime
from collections.abc import Iterator
from typing import Any, Final, final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from longhall.pipeline.archive.manifest import DAY_MS, Piece, piece_path
from longhall.pipeline.archive.storage import Storage
from longhall.pipeline.arrow_table import SEALED_BATCH, TYPES
from longhall.queues.envelope import SEAL
from longhall.records.header import parse_header

COLUMNS: Final = ("offset", "timestamp", "timestampType", "key", "value", "headers")
SCHEMA: Final = pa.schema([pa.field(name, TYPES[name]) for name in COLUMNS])
FILE_BYTES_MAX: Final = 64 * 1024 * 1024  # Of keys and values in one file, which is made in memory.
GROUP_BYTES: Final = 8 * 1024 * 1024
DAYS_CUT_MAX: Final = 16  # Files that a change of the day may begin in one piece of work.
ROW_BYTES: Final = 32  # What a message counts beside its key and value.

_PREFIX: Final = b"longhall."
_DAYS: Final = (-719_162, 2_932_896)  # What a calendar has: the years 1 to 9999.


@final
class Writer:
    """The files of one range of one partition."""

    def __init__(
        self, storage: Storage, topic: str, topic_id: str, partition: int, base: int, cuts_days: bool = True
    ) -> None:
        self.pieces: list[Piece] = []
        self._storage = storage
        self._topic = topic
        self._topic_id = topic_id
        self._partition = partition
        self._base = base
        self._days_cut = 0 if cuts_days else DAYS_CUT_MAX
        self._day: int | None = None  # Of the file under way, if there is one.
        self._group: list[Any] = []
        self._group_bytes = 0
        self._file_bytes = 0
        self._rows = 0
        self._messages = 0
        self._sealed_end = 0  # Behind the last sealed batch, which may reach beyond the range.
        self._is_sealed = False
        self._times = [0, 0]
        self._sink: Any = None
        self._parquet: Any = None

    def add(self, batch: Any) -> None:
        """Append messages in the order of their offsets."""
        offsets = batch.column(0).to_numpy()
        times_ms = batch.column(1).cast(pa.int64()).to_numpy() // 1000
        days = times_ms // DAY_MS
        sizes = np.cumsum(_lengths(batch.column(3)) + _lengths(batch.column(4)) + ROW_BYTES)
        at = 0
        while at < len(offsets):
            if self._must_end(int(days[at])):
                self.close(int(offsets[at]))
            if self._parquet is None:
                self._begin(int(days[at]))
            done = int(sizes[at - 1]) if at else 0
            # Up to the message that fills the group, and not beyond the day.
            until = int(np.searchsorted(sizes, done + GROUP_BYTES - self._group_bytes)) + 1
            if self._days_cut < DAYS_CUT_MAX:
                others = np.flatnonzero(days[at:until] != self._day)
                until = at + int(others[0]) if len(others) else until
            until = min(until, len(offsets))
            self._take(batch.slice(at, until - at), int(sizes[until - 1]) - done, times_ms[at:until])
            at = until

    def close(self, end: int) -> None:
        """Finish the last file, which ends at `end`."""
        if end == self._base:
            return
        if self._parquet is None:
            self.pieces.append(Piece(base=self._base, end=end))
        else:
            self.pieces.append(self._finish(end))
        self._base = end

    def _must_end(self, day: int) -> bool:
        if self._parquet is None:
            return False
        if day != self._day and self._days_cut < DAYS_CUT_MAX:
            self._days_cut += 1
            return True
        return self._file_bytes >= FILE_BYTES_MAX

    def _begin(self, day: int) -> None:
        self._day = day
        self._sink = pa.BufferOutputStream()
        self._parquet = pq.ParquetWriter(
            self._sink,
            SCHEMA,
            compression="zstd",
            use_dictionary=["timestampType"],
            write_statistics=["offset", "timestamp"],
        )

    def _take(self, rows: Any, size_bytes: int, times_ms: Any) -> None:
        first, last = int(times_ms.min()), int(times_ms.max())
        self._times = [min(first, self._times[0]), max(last, self._times[1])] if self._rows else [first, last]
        self._rows += rows.num_rows
        self._count(rows)
        self._group.append(rows)
        self._group_bytes += size_bytes
        self._file_bytes += size_bytes
        if self._group_bytes >= GROUP_BYTES:
            self._write_group()

    def _count(self, rows: Any) -> None:
        """Count messages, of sealed batches by their headers, and note whether there is ciphertext."""
        sealed = sealed_rows(rows)
        for number in sealed:
            self._sealed_end = parse_header(rows.column(4)[number].as_py(), 0).next_offset
            self._messages += self._sealed_end - rows.column(0)[number].as_py()
        self._messages += rows.num_rows - len(sealed)
        self._is_sealed = self._is_sealed or bool(sealed) or has_seals(rows)

    def _write_group(self) -> None:
        if self._group:
            rows = pa.Table.from_batches(self._group, SCHEMA).combine_chunks()
            self._parquet.write_table(rows, row_group_size=max(1, rows.num_rows))
        self._group = []
        self._group_bytes = 0

    def _finish(self, end: int) -> Piece:
        self._write_group()
        assert self._day is not None
        messages = self._messages - max(0, self._sealed_end - end) if self._is_sealed else 0
        facts = {
            "topic_id": self._topic_id,
            "base": str(self._base),
            "end": str(end),
            "first_ms": str(self._times[0]),
            "last_ms": str(self._times[1]),
            "content_bytes": str(self._file_bytes),
        }
        if self._is_sealed:
            facts |= {"sealed": "true", "messages": str(messages)}
        self._parquet.add_key_value_metadata({f"longhall.{name}": value for name, value in facts.items()})
        self._parquet.close()
        data = self._sink.getvalue()
        path = piece_path(self._topic, self._partition, _day_name(self._day), self._base, end)
        piece = Piece(
            base=self._base,
            end=end,
            path=path,
            rows=self._rows,
            size_bytes=data.size,
            content_bytes=self._file_bytes,
            first_ms=self._times[0],
            last_ms=self._times[1],
            sealed=self._is_sealed,
            messages=messages,
        )
        self._parquet = self._sink = None
        self._rows = self._file_bytes = self._messages = self._sealed_end = 0
        self._is_sealed = False
        return _put(self._storage, piece, self._topic_id, data)


def _put(storage: Storage, piece: Piece, topic_id: str, data: Any) -> Piece:
    """Write a file. If an earlier attempt has written it already, that file stays and is described as it is."""
    if storage.has_links and storage.put_if_absent(piece.path, data):
        return piece
    known = recognised(storage, piece.path, topic_id)
    if known is not None and (known.base, known.end) == (piece.base, piece.end):
        return known
    storage.put(piece.path, data)
    return piece


def recognised(storage: Storage, path: str, topic_id: str) -> Piece | None:
    """The piece that a file describes; None if it is missing, damaged, or of another topic."""
    size = storage.size_bytes(path)
    if not size:
        return None
    try:
        with storage.open(path) as file:
            footer = pq.read_metadata(file)
        facts = {
            key.removeprefix(_PREFIX).decode(): value.decode()
            for key, value in (footer.metadata or {}).items()
            if key.startswith(_PREFIX)
        }
        if facts.get("topic_id") != topic_id:
            return None
        return Piece(
            base=int(facts["base"]),
            end=int(facts["end"]),
            path=path,
            rows=footer.num_rows,
            size_bytes=size,
            content_bytes=int(facts["content_bytes"]),
            first_ms=int(facts["first_ms"]),
            last_ms=int(facts["last_ms"]),
            sealed=facts.get("sealed") == "true",
            messages=int(facts.get("messages", "0")),
        )
    except (pa.ArrowException, OSError, KeyError, ValueError):
        return None


def read_piece(storage: Storage, piece: Piece) -> Iterator[Any]:
    """The rows of one file as record batches of the columns above, a row group at a time. Sealed ones stay so."""
    if piece.path:
        with storage.open(piece.path) as file:
            parquet = pq.ParquetFile(file)
            for number in range(parquet.num_row_groups):
                yield from parquet.read_row_group(number).to_batches()


def sealed_rows(rows: Any) -> list[int]:
    """The numbers of the rows that are sealed batches."""
    return [int(number) for number in np.flatnonzero(rows.column(2).to_numpy() == SEALED_BATCH)]


def has_seals(rows: Any) -> bool:
    """True if some message has the seal of a queue."""
    names = rows.column(5).flatten().field("key")
    return bool(pc.any(pc.equal(names, SEAL)).as_py())


def _lengths(column: Any) -> Any:
    return pc.fill_null(pc.binary_length(column), 0).to_numpy(zero_copy_only=False).astype(np.int64)


def _day_name(day: int) -> str:
    """A day of the calendar; times outside of the calendar become its first or last day."""
    within = min(max(day, _DAYS[0]), _DAYS[1])
    return (datetime.date(1970, 1, 1) + datetime.timedelta(days=within)).isoformat()

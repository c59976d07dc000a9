"""Encodes rows of a table into record batches: the inner loop of everything that Spark writes.

No row becomes an object. The loop takes the columns as Arrow has them (where each entry ends, and the bytes of all of
them), chooses the partition of each row as Kafka's clients do, and appends the encoded record to the pack of that
partition. `records.record` defines the format of a record, and a test compares the bytes of both encoders.

    partition of a row    its column if it has a value, else by the hash of its key, else the current one in turn: that
                          one fills up first, so that rows without a key make large batches

Packing stops as soon as a pack is full, so that the caller can send it before more is packed. This module knows neither
Arrow nor the sender.
"""

from __future__ import annotations

from typing import Final, final

from librt.strings import BytesWriter, read_i32_le, read_i64_le
from mypy_extensions import i64

from longhall.errors import Code, LonghallError
from longhall.records.batch import pack_batch
from longhall.records.partitioner import partition_for

PACK_BYTES: Final = 512 * 1024  # A batch is closed as soon as it has this size.
OPEN_BYTES_MAX: Final = 32 * 1024 * 1024  # Total of all packs that are not closed yet.


@final
class Column:
    """Consecutive byte strings. If `present` is not empty, it has one byte per row, 0 for a null."""

    def __init__(self, bounds: bytes, data: bytes, present: bytes, begin: int = 0) -> None:
        self.bounds = bounds  # One more than rows, 32 bits each; empty if every row is null.
        self.data = data
        self.begin: i64 = begin  # The bound of the first byte.
        self.present = present


@final
class Rows:
    """A slice of a table. Empty bytes stand for a missing column."""

    def __init__(self, count: int, key: Column, value: Column) -> None:
        self.count = count
        self.key = key
        self.value = value
        self.topics: list[str] = []
        self.topic_of = b""  # 32 bits per row, an index into `topics`; empty if there is only one.
        self.partitions = b""  # 32 bits per row, -1 for none.
        self.times = b""  # 64 bits per row, in microseconds.
        self.headers: list[bytes] = []  # Encoded headers, or empty.


@final
class Pack:
    """Encoded records for one partition that are not a batch yet."""

    def __init__(self, topic: str, partition: int) -> None:
        self.topic = topic
        self.partition = partition
        self.rows: i64 = 0
        self.body = BytesWriter()
        self.base_ms: i64 = 0
        self.newest_ms: i64 = 0

    def add(
        self,
        time_ms: i64,
        key: bytes,
        key_at: i64,
        key_size: i64,
        value: bytes,
        value_at: i64,
        value_size: i64,
        headers: bytes,
    ) -> None:
        """Append one record; sizes are -1 for null."""
        if self.rows == 0:
            self.base_ms = time_ms
            self.newest_ms = time_ms
        elif time_ms > self.newest_ms:
            self.newest_ms = time_ms
        out = self.body
        delta: i64 = time_ms - self.base_ms
        size: i64 = (
            1
            + _varint_size(delta)
            + _varint_size(self.rows)
            + _varint_size(key_size)
            + _varint_size(value_size)
            + len(headers)
        )
        if key_size > 0:
            size += key_size
        if value_size > 0:
            size += value_size
        _append_varint(out, size)
        out.append(0)
        _append_varint(out, delta)
        _append_varint(out, self.rows)
        _append_varint(out, key_size)
        if key_size > 0:
            out.write(key[key_at : key_at + key_size])
        _append_varint(out, value_size)
        if value_size > 0:
            out.write(value[value_at : value_at + value_size])
        out.write(headers)
        self.rows += 1

    def batch(self, compression: int) -> bytes:
        return pack_batch(self.body.getvalue(), self.rows, self.base_ms, self.newest_ms, compression)


@final
class Packer:
    """All packs of one task. `first_turn` differs between tasks, so that they begin with different partitions."""

    def __init__(self, first_turn: int = 0, pack_bytes: int = PACK_BYTES) -> None:
        self.open_bytes: i64 = 0
        self._pack_bytes: i64 = pack_bytes
        self._first_turn = first_turn
        self._open: dict[str, list[Pack | None]] = {}
        self._turns: dict[str, int] = {}
        self._full: list[Pack] = []

    def knows(self, topic: str) -> bool:
        return topic in self._open

    def learn(self, topic: str, partition_count: int) -> None:
        """Set the number of partitions of a topic, before its first row."""
        none: list[Pack | None] = [None] * partition_count
        self._open[topic] = none
        self._turns[topic] = self._first_turn % partition_count

    def pack(self, rows: Rows, start: int, now_ms: int) -> int:
        """Add rows from `start` on until a pack is full or all rows are added; returns the next row."""
        row: i64 = start
        count: i64 = rows.count
        while row < count and not self._full and self.open_bytes < OPEN_BYTES_MAX:
            self._add(rows, row, now_ms)
            row += 1
        return row

    def take(self, everything: bool = False) -> list[Pack]:
        """The packs that are full; all of them with `everything` or if too many bytes are open."""
        full = self._full
        self._full = []
        if everything or self.open_bytes >= OPEN_BYTES_MAX:
            for packs in self._open.values():
                for number in range(len(packs)):
                    pack = packs[number]
                    if pack is not None:
                        full.append(pack)
                        packs[number] = None
            self.open_bytes = 0
        return full

    def _add(self, rows: Rows, row: i64, now_ms: i64) -> None:
        topic = rows.topics[0] if not rows.topic_of else rows.topics[read_i32_le(rows.topic_of, 4 * row)]
        packs = self._open[topic]
        key_at, key_size = _bounds(rows.key, row)
        value_at, value_size = _bounds(rows.value, row)
        wanted: i64 = -1
        if rows.partitions:
            wanted = i64(read_i32_le(rows.partitions, 4 * row))
        by_turn = False
        if wanted < 0:
            if key_size >= 0:
                wanted = partition_for(rows.key.data[key_at : key_at + key_size], len(packs))
            else:
                by_turn = True
                wanted = self._turns[topic]
        elif wanted >= len(packs):
            raise LonghallError(
                Code.INVALID_REQUEST, f"a row wants partition {wanted} of {topic}, which has {len(packs)}"
            )
        pack = packs[wanted]
        if pack is None:
            pack = Pack(topic, wanted)
            packs[wanted] = pack
        time_ms: i64 = now_ms
        if rows.times:
            time_ms = read_i64_le(rows.times, 8 * row) // 1000
        before: i64 = len(pack.body)
        headers = rows.headers[row] if rows.headers else b"\x00"
        pack.add(time_ms, rows.key.data, key_at, key_size, rows.value.data, value_at, value_size, headers)
        size: i64 = len(pack.body)
        self.open_bytes += size - before
        if size >= self._pack_bytes:
            self._full.append(pack)
            packs[wanted] = None
            self.open_bytes -= size
            if by_turn:
                self._turns[topic] = (wanted + 1) % len(packs)


def _bounds(column: Column, row: i64) -> tuple[i64, i64]:
    """Where an entry begins, and its size; -1 for a null."""
    if not column.bounds or (column.present and column.present[row] == 0):
        return 0, -1
    at: i64 = i64(read_i32_le(column.bounds, 4 * row))
    end: i64 = i64(read_i32_le(column.bounds, 4 * row + 4))
    return at - column.begin, end - at


def _varint_size(value: i64) -> i64:
    """The encoded size of a zigzag varint."""
    raw: i64 = value * 2 if value >= 0 else -2 * value - 1
    size: i64 = 1
    while raw > 0x7F:
        raw >>= 7
        size += 1
    return size


def _append_varint(out: BytesWriter, value: i64) -> None:
    raw: i64 = value * 2 if value >= 0 else -2 * value - 1
    while raw > 0x7F:
        out.append((raw & 0x7F) | 0x80)
        raw >>= 7
    out.append(raw)


def encode_headers(headers: list[tuple[str, bytes | None]]) -> bytes:
    """The encoded headers at the end of one record."""
    out = BytesWriter()
    _append_varint(out, len(headers))
    for name, value in headers:
        text = name.encode()
        _append_varint(out, len(text))
        out.write(text)
        if value is None:
            _append_varint(out, -1)
        else:
            _append_varint(out, len(value))
            out.write(value)
    return out.getvalue()

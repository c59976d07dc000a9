"""One record inside a batch, in version 2 of the format.

    +--------+------------+-----------------+--------------+---------+---------+-------------+
    | length | attributes | timestamp delta | offset delta | key     | value   | headers     |
    | varint | int8       | varlong         | varint       | v bytes | v bytes | count, each |
    +--------+------------+-----------------+--------------+---------+---------+-------------+

`v bytes` is a varint length (-1 for null) and that many bytes; a header is a string (never null) and such bytes. Deltas
are relative to the base offset and base timestamp of the batch header, which are arguments here.
"""

from __future__ import annotations

from typing import Final, final

from mypy_extensions import i64

from longhall.errors import Code, LonghallError
from longhall.records.varint import (
    INT64_MAX,
    INT64_MIN,
    append_signed,
    append_signed_long,
    read_signed,
    read_signed_long,
)

RECORD_BYTES_MIN: Final = 7  # Every field at its shortest: bounds the records of a batch by its bytes.

Headers = tuple[tuple[str, bytes | None], ...]


@final
class Record:
    """A decoded message. An offset of -1 means "the one after the record before"."""

    def __init__(
        self, offset: int, timestamp_ms: int, key: bytes | None, value: bytes | None, headers: Headers = ()
    ) -> None:
        self.offset = offset
        self.timestamp_ms = timestamp_ms
        self.key = key
        self.value = value
        self.headers = headers

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Record):
            return NotImplemented
        return (
            self.offset == other.offset
            and self.timestamp_ms == other.timestamp_ms
            and self.key == other.key
            and self.value == other.value
            and self.headers == other.headers
        )

    def __hash__(self) -> int:
        return hash((self.offset, self.timestamp_ms, self.key, self.value))

    def __repr__(self) -> str:
        return f"Record({self.offset}, {self.timestamp_ms}, {self.key!r}, {self.value!r}, {self.headers!r})"


def append_record(out: bytearray, record: Record, offset_delta: int, timestamp_delta_ms: int) -> None:
    """Append one record after its length."""
    body = bytearray(b"\x00")
    append_signed_long(body, timestamp_delta_ms)
    append_signed(body, offset_delta)
    _append_nullable(body, record.key)
    _append_nullable(body, record.value)
    append_signed(body, len(record.headers))
    for name, value in record.headers:
        _append_nullable(body, name.encode())
        _append_nullable(body, value)
    append_signed(out, len(body))
    out += body


def parse_records(body: bytes, at: int, end: int, count: int, base_offset: int, base_timestamp_ms: int) -> list[Record]:
    """Read exactly `count` records from `body[at:end]`, which they must fill."""
    if end > len(body) or at < 0 or count > (end - at) // RECORD_BYTES_MIN:
        raise LonghallError(Code.CORRUPT_MESSAGE, "a batch has fewer bytes than its records need")
    records: list[Record] = []
    position: i64 = at
    limit: i64 = end
    previous = -1
    for _ in range(count):
        length, size = read_signed(body, position)
        position += size
        if length < RECORD_BYTES_MIN - 1 or length > limit - position:
            raise LonghallError(Code.CORRUPT_MESSAGE, "a record's length does not fit its batch")
        record_end: i64 = position + length
        position += 1  # The attributes of a record are unused, and ignored as clients do.
        timestamp_delta, size = read_signed_long(body, position)
        position += size
        offset_delta, size = read_signed(body, position)
        position += size
        if offset_delta <= previous:
            raise LonghallError(Code.CORRUPT_MESSAGE, "the offsets of a batch do not ascend")
        previous = offset_delta
        timestamp_ms = base_timestamp_ms + timestamp_delta
        if timestamp_ms < INT64_MIN or timestamp_ms > INT64_MAX:
            raise LonghallError(Code.CORRUPT_MESSAGE, "a record's timestamp does not fit 64 bits")
        key, size = _read_nullable(body, position, record_end)
        position += size
        value, size = _read_nullable(body, position, record_end)
        position += size
        headers, size = _read_headers(body, position, record_end)
        position += size
        if position != record_end:
            raise LonghallError(Code.CORRUPT_MESSAGE, "a record's fields do not fill its length")
        records.append(Record(base_offset + offset_delta, timestamp_ms, key, value, headers))
    if position != limit:
        raise LonghallError(Code.CORRUPT_MESSAGE, "bytes follow the last record of a batch")
    return records


def _append_nullable(out: bytearray, value: bytes | None) -> None:
    if value is None:
        out.append(1)  # -1, zigzagged.
        return
    append_signed(out, len(value))
    out += value


def _read_nullable(body: bytes, at: int, end: int) -> tuple[bytes | None, int]:
    length, size = read_signed(body, at)
    start: i64 = at + size
    if length > end - start or length < -1:
        raise LonghallError(Code.CORRUPT_MESSAGE, "a field runs past the end of its record")
    if length < 0:
        return None, size
    return body[start : start + length], size + length


def _read_headers(body: bytes, at: int, end: int) -> tuple[Headers, int]:
    count, size = read_signed(body, at)
    if count == 0:
        return (), size
    position: i64 = at + size
    # A header takes at least two bytes, so the count is bounded before the list grows.
    if count < 0 or count > (end - position) // 2:
        raise LonghallError(Code.CORRUPT_MESSAGE, "a record has fewer bytes than its headers need")
    headers: list[tuple[str, bytes | None]] = []
    for _ in range(count):
        name, size = _read_nullable(body, position, end)
        position += size
        if name is None:
            raise LonghallError(Code.CORRUPT_MESSAGE, "a header has no name")
        value, size = _read_nullable(body, position, end)
        position += size
        headers.append((_text(name), value))
    return tuple(headers), position - at


def _text(name: bytes) -> str:
    try:
        return name.decode("utf-8")
    except UnicodeDecodeError:
        raise LonghallError(Code.CORRUPT_MESSAGE, "a header's name is not UTF-8") from None

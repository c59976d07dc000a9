"""Decodes the records of batches into columns of a table: the inner loop of everything that Spark reads.

No record becomes an object. The loop goes over the bytes of a batch and notes, for each row, where its key and its
value begin and end, as consecutive 32-bit numbers:

    positions   k0 begin, k0 end, k1 begin, k1 end, ...     into the given bytes
                ------v-----  ---v---
                  the key    the bytes in between: no row

Read as the offsets of a binary column, every second entry is a row, so that gathering the rows out of the bytes is one
call to native code (`pipeline.arrow_table`). Offsets and times are plain 64-bit columns. Columns that were not asked
for are skipped. What a batch must look like is what `records.record` says, and a test holds both to the same answers.

Positions count through all bytes of one chunk; if a chunk has several pieces (decompressed bodies), the caller joins
them. This module knows neither where batches come from nor what a table is.
"""

from __future__ import annotations

from typing import Final, final

from librt.strings import BytesWriter, write_i32_le, write_i64_le
from mypy_extensions import i32, i64

from longhall.errors import Code, LonghallError
from longhall.records.record import RECORD_BYTES_MIN
from longhall.records.varint import INT64_MAX, INT64_MIN, read_signed, read_signed_long

KEY: Final = 1
VALUE: Final = 2
OFFSET: Final = 4
TIMESTAMP: Final = 8
HEADERS: Final = 16

NOT_STAMPED: Final = INT64_MIN
TIMES_MAX: Final = INT64_MAX // 1000  # Later times do not fit 64 bits in microseconds.


@final
class Columns:
    """Rows of one chunk. `first` and `end` bound the wanted offsets; `first_ms` and `last_ms` the wanted times."""

    def __init__(self, wants: int, first: int, end: int, first_ms: int = INT64_MIN, last_ms: int = INT64_MAX) -> None:
        self.rows: i64 = 0
        self.bytes: i64 = 0  # Total size of keys and values.
        self.keys = BytesWriter()
        self.values = BytesWriter()
        self.key_nulls = BytesWriter()  # The numbers of rows, 64 bits each.
        self.value_nulls = BytesWriter()
        self.offsets = BytesWriter()
        self.times = BytesWriter()
        self.header_ends = BytesWriter()  # The number of headers up to and including each row.
        self.header_names = BytesWriter()
        self.header_values = BytesWriter()
        self.header_nulls = BytesWriter()
        self.headers: i64 = 0
        self._wants: i64 = wants
        self._first: i64 = first
        self._end: i64 = end
        self._first_ms: i64 = first_ms
        self._last_ms: i64 = last_ms

    def add(
        self,
        body: bytes,
        at: i64,
        limit: i64,
        count: i64,
        base_offset: i64,
        last_offset: i64,
        base_ms: i64,
        append_ms: i64,
        shift: i64,
    ) -> None:
        """Add the records in `body[at:limit]`, which they fill exactly; `shift` is added to every position.

        `append_ms` is the time of all of them if the broker stamped the batch, otherwise NOT_STAMPED.
        """
        if limit > len(body) or at < 0 or count > (limit - at) // RECORD_BYTES_MIN:
            raise LonghallError(Code.CORRUPT_MESSAGE, "a batch has fewer bytes than its records need")
        try:
            self._add(body, at, limit, count, base_offset, last_offset, base_ms, append_ms, shift)
        except IndexError:
            raise LonghallError(Code.CORRUPT_MESSAGE, "a record runs past the end of its batch") from None

    def _add(
        self,
        body: bytes,
        at: i64,
        limit: i64,
        count: i64,
        base_offset: i64,
        last_offset: i64,
        base_ms: i64,
        append_ms: i64,
        shift: i64,
    ) -> None:
        wants = self._wants
        position = at
        previous: i64 = -1
        done: i64 = 0
        key_bounds = self.keys
        value_bounds = self.values
        while done < count:
            done += 1
            # Most varints take one or two bytes and are decoded inline, because a call per field costs more than the
            # decoding.
            raw: i64 = body[position]
            if raw < 0x80:
                position += 1
                raw = (raw >> 1) ^ -(raw & 1)
            elif body[position + 1] < 0x80:
                raw = (raw & 0x7F) | (i64(body[position + 1]) << 7)
                position += 2
                raw = (raw >> 1) ^ -(raw & 1)
            else:
                raw, position = _read_int(body, position)
            if raw < RECORD_BYTES_MIN - 1 or raw > limit - position:
                raise LonghallError(Code.CORRUPT_MESSAGE, "a record's length does not fit its batch")
            record_end: i64 = position + raw
            position += 1  # The attributes of a record are unused, and ignored as clients do.
            time_delta: i64 = body[position]
            if time_delta < 0x80:
                position += 1
                time_delta = (time_delta >> 1) ^ -(time_delta & 1)
            else:
                time_delta, position = _read_long(body, position)
            delta: i64 = body[position]
            if delta < 0x80:
                position += 1
                delta = (delta >> 1) ^ -(delta & 1)
            elif body[position + 1] < 0x80:
                delta = (delta & 0x7F) | (i64(body[position + 1]) << 7)
                position += 2
                delta = (delta >> 1) ^ -(delta & 1)
            else:
                delta, position = _read_int(body, position)
            if delta <= previous:
                raise LonghallError(Code.CORRUPT_MESSAGE, "the offsets of a batch do not ascend")
            previous = delta
            time_ms: i64 = _add_delta(base_ms, time_delta)
            if append_ms != NOT_STAMPED:
                time_ms = append_ms
            key_size: i64 = body[position]
            if key_size < 0x80:
                position += 1
                key_size = (key_size >> 1) ^ -(key_size & 1)
            else:
                key_size, position = _read_int(body, position)
            if key_size > record_end - position or key_size < -1:
                raise LonghallError(Code.CORRUPT_MESSAGE, "a field runs past the end of its record")
            key_at: i64 = position
            if key_size > 0:
                position += key_size
            value_size: i64 = body[position]
            if value_size < 0x80:
                position += 1
                value_size = (value_size >> 1) ^ -(value_size & 1)
            elif body[position + 1] < 0x80:
                value_size = (value_size & 0x7F) | (i64(body[position + 1]) << 7)
                position += 2
                value_size = (value_size >> 1) ^ -(value_size & 1)
            else:
                value_size, position = _read_int(body, position)
            if value_size > record_end - position or value_size < -1:
                raise LonghallError(Code.CORRUPT_MESSAGE, "a field runs past the end of its record")
            value_at: i64 = position
            if value_size > 0:
                position += value_size
            headers_at: i64 = position
            if position + 1 == record_end and body[position] == 0:
                position += 1
            else:
                position = _skip_headers(body, position, record_end)
            if position != record_end:
                raise LonghallError(Code.CORRUPT_MESSAGE, "a record's fields do not fill its length")
            offset: i64 = base_offset + delta
            if offset < self._first or offset >= self._end or time_ms < self._first_ms or time_ms > self._last_ms:
                continue
            if wants & KEY:
                if key_size < 0:
                    write_i64_le(self.key_nulls, self.rows)
                    key_size = 0
                write_i32_le(key_bounds, i32(key_at + shift))
                write_i32_le(key_bounds, i32(key_at + key_size + shift))
                self.bytes += key_size
            if wants & VALUE:
                if value_size < 0:
                    write_i64_le(self.value_nulls, self.rows)
                    value_size = 0
                write_i32_le(value_bounds, i32(value_at + shift))
                write_i32_le(value_bounds, i32(value_at + value_size + shift))
                self.bytes += value_size
            if wants & OFFSET:
                write_i64_le(self.offsets, offset)
            if wants & TIMESTAMP:
                write_i64_le(self.times, _microseconds(time_ms))
            if wants & HEADERS:
                self._add_headers(body, headers_at, shift)
            self.rows += 1
        if position != limit:
            raise LonghallError(Code.CORRUPT_MESSAGE, "bytes follow the last record of a batch")
        if base_offset + previous > last_offset:
            raise LonghallError(Code.CORRUPT_MESSAGE, "the offset of a record is after the last offset of its batch")

    def _add_headers(self, body: bytes, at: i64, shift: i64) -> None:
        """Add the headers of one row; `_skip_headers` has checked that they are well formed."""
        count, position = _read_int(body, at)
        done: i64 = 0
        while done < count:
            done += 1
            size, position = _read_int(body, position)
            write_i32_le(self.header_names, i32(position + shift))
            position += size
            write_i32_le(self.header_names, i32(position + shift))
            size, position = _read_int(body, position)
            if size < 0:
                write_i64_le(self.header_nulls, self.headers)
                size = 0
            write_i32_le(self.header_values, i32(position + shift))
            position += size
            write_i32_le(self.header_values, i32(position + shift))
            self.headers += 1
        write_i32_le(self.header_ends, i32(self.headers))


def _read_int(body: bytes, at: i64) -> tuple[i64, i64]:
    """A varint, and the position after it."""
    value, size = read_signed(body, at)
    return value, at + size


def _read_long(body: bytes, at: i64) -> tuple[i64, i64]:
    value, size = read_signed_long(body, at)
    return value, at + size


def _skip_headers(body: bytes, at: i64, end: i64) -> i64:
    count, position = _read_int(body, at)
    if count < 0 or count > (end - position) // 2:
        raise LonghallError(Code.CORRUPT_MESSAGE, "a record has fewer bytes than its headers need")
    done: i64 = 0
    while done < count:
        done += 1
        size, position = _read_int(body, position)
        if size < 0:
            raise LonghallError(Code.CORRUPT_MESSAGE, "a header has no name")
        if size > end - position:
            raise LonghallError(Code.CORRUPT_MESSAGE, "a field runs past the end of its record")
        position += size
        size, position = _read_int(body, position)
        if size > end - position or size < -1:
            raise LonghallError(Code.CORRUPT_MESSAGE, "a field runs past the end of its record")
        if size > 0:
            position += size
    return position


def _add_delta(base_ms: i64, delta_ms: i64) -> i64:
    if (delta_ms > 0 and base_ms > INT64_MAX - delta_ms) or (delta_ms < 0 and base_ms < INT64_MIN - delta_ms):
        raise LonghallError(Code.CORRUPT_MESSAGE, "a record's timestamp does not fit 64 bits")
    return base_ms + delta_ms


def _microseconds(time_ms: i64) -> i64:
    """The time in microseconds, clamped to 64 bits: a producer may have sent any number."""
    if time_ms > TIMES_MAX:
        time_ms = TIMES_MAX
    elif time_ms < -TIMES_MAX:
        time_ms = -TIMES_MAX
    return time_ms * 1000

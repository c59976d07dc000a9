"""The header of a record batch, version 2: the only part that the log, the shards and the doors read.

    0            8        12      16      17    21           23           27          35
    +------------+--------+-------+-------+-----+------------+------------+-----------+----------
    | base       | length | leader| magic | crc | attributes | last offset| base      | max
    | offset  i64| i32    | epoch | = 2   | u32 | i16        | delta   i32| time   i64| time   i64
    +------------+--------+-------+-------+-----+------------+------------+-----------+----------
    43           51         53          57       61
    +------------+----------+-----------+--------+--------------------------------------
    | producer   | producer | base      | record | records, compressed as a whole if the
    | id      i64| epoch i16| sequence  | count  | attributes say so
    +------------+----------+-----------+--------+--------------------------------------
    attributes: bits 0-2 compression, 3 log append time, 4 transactional, 5 control, 6 base time is a delete horizon,
                7 the records are sealed (`seal`; never on the wire of a client)

`length` counts the bytes after it. The CRC covers everything from the attributes on, so storing a batch patches offset,
length and epoch without touching the rest (`stored_prefix`). A batch in the log may have fewer records than its offsets
span, even none: compaction keeps the header of an emptied one. This module never opens the records and does not know
whether a producer was allowed to send them; `check_produced` checks what the format requires.
"""

from __future__ import annotations

import struct
from typing import Final, final

from mypy_extensions import i64

from longhall.errors import Code, LonghallError
from longhall.records.compression import CODEC_MAX
from longhall.records.crc import crc_of
from longhall.records.native import COMPILED
from longhall.records.varint import INT32_MAX, INT64_MAX

HEADER_BYTES: Final = 61
RECORD_COUNT_AT: Final = 57
LENGTH_ENDS_AT: Final = 12  # `length` counts from here.
CRC_COVERS_FROM: Final = 21
MAGIC: Final = 2

LOG_APPEND_TIME: Final = 0x08
TRANSACTIONAL: Final = 0x10
CONTROL: Final = 0x20
DELETE_HORIZON: Final = 0x40
SEALED: Final = 0x80

_HEADER: Final = struct.Struct(">qiixIhiqqqhii")
_PREFIX: Final = struct.Struct(">qii")


@final
class BatchHeader:
    """The fields of one batch header. `size_bytes` is the whole batch, its length field and base offset included."""

    def __init__(
        self,
        base_offset: int,
        size_bytes: int,
        leader_epoch: int,
        crc: int,
        attributes: int,
        last_offset_delta: int,
        base_timestamp_ms: int,
        max_timestamp_ms: int,
        producer_id: int,
        producer_epoch: int,
        base_sequence: int,
        record_count: int,
    ) -> None:
        self.base_offset = base_offset
        self.size_bytes = size_bytes
        self.leader_epoch = leader_epoch
        self.crc = crc
        self.attributes = attributes
        self.last_offset_delta = last_offset_delta
        self.base_timestamp_ms = base_timestamp_ms
        self.max_timestamp_ms = max_timestamp_ms
        self.producer_id = producer_id
        self.producer_epoch = producer_epoch
        self.base_sequence = base_sequence
        self.record_count = record_count

    @property
    def last_offset(self) -> int:
        """The highest offset of the batch, whether or not its record is still there."""
        return self.base_offset + self.last_offset_delta

    @property
    def next_offset(self) -> int:
        """The offset after the batch."""
        return self.base_offset + self.last_offset_delta + 1

    @property
    def last_sequence(self) -> int:
        """The producer's sequence of the last record; sequences wrap to 0 after the largest 32-bit number."""
        if self.base_sequence < 0:
            return -1
        return (self.base_sequence + self.last_offset_delta) & INT32_MAX

    @property
    def compression(self) -> int:
        return self.attributes & 0x07

    @property
    def is_log_append_time(self) -> bool:
        return self.attributes & LOG_APPEND_TIME != 0

    @property
    def is_transactional(self) -> bool:
        return self.attributes & TRANSACTIONAL != 0

    @property
    def is_control(self) -> bool:
        return self.attributes & CONTROL != 0

    @property
    def is_sealed(self) -> bool:
        """True if the records are ciphertext: only `front`, which has the keys, can open them."""
        return self.attributes & SEALED != 0

    @property
    def has_delete_horizon(self) -> bool:
        """True if the base time is the delete horizon of the batch's markers and tombstones, which the cleaner set."""
        return self.attributes & DELETE_HORIZON != 0


def parse_header(buffer: bytes, at: int) -> BatchHeader:
    """Read the header at `at`. The batch may be longer than the buffer; `check_batch` checks that."""
    if at < 0 or len(buffer) - at < HEADER_BYTES:
        raise LonghallError(Code.CORRUPT_MESSAGE, "a batch is shorter than its header")
    if buffer[at + 16] != MAGIC:
        if buffer[at + 16] < MAGIC:
            raise LonghallError(Code.UNSUPPORTED_FORMAT, "message formats before version 2 are not supported")
        raise LonghallError(Code.CORRUPT_MESSAGE, "a batch has an unknown format version")
    header = _indexed(buffer, at) if COMPILED else _unpacked(buffer, at)
    if header.size_bytes < HEADER_BYTES or header.size_bytes > INT32_MAX:
        raise LonghallError(Code.CORRUPT_MESSAGE, "a batch's length is impossible")
    last_delta = header.last_offset_delta
    if header.base_offset < 0 or last_delta < 0 or header.base_offset > INT64_MAX - last_delta - 1:
        raise LonghallError(Code.CORRUPT_MESSAGE, "a batch's offsets are impossible")
    if header.record_count < 0 or header.record_count > last_delta + 1:
        raise LonghallError(Code.CORRUPT_MESSAGE, "a batch counts more records than its offsets span")
    if header.attributes & 0x07 > CODEC_MAX:
        raise LonghallError(Code.UNSUPPORTED_FORMAT, "a batch has an unknown compression codec")
    return header


def check_batch(buffer: bytes, at: int, end: int) -> BatchHeader:
    """Read the header at `at` and verify that the whole batch ends before `end` and matches its CRC."""
    header = parse_header(buffer, at)
    if end > len(buffer) or header.size_bytes > end - at:
        raise LonghallError(Code.CORRUPT_MESSAGE, "a batch is truncated")
    if crc_of(buffer, at + CRC_COVERS_FROM, at + header.size_bytes) != header.crc:
        raise LonghallError(Code.CORRUPT_MESSAGE, "the checksum of a batch is wrong")
    return header


def check_produced(header: BatchHeader) -> None:
    """Refuse a header that no producer may send: gaps, no records, a marker, a missing sequence."""
    if header.record_count == 0 or header.record_count != header.last_offset_delta + 1:
        raise LonghallError(Code.CORRUPT_MESSAGE, "a produced batch must have one record an offset")
    if header.is_control:
        raise LonghallError(Code.INVALID_REQUEST, "a producer must not write markers")
    if header.producer_id >= 0 and (header.base_sequence < 0 or header.producer_epoch < 0):
        raise LonghallError(Code.CORRUPT_MESSAGE, "a batch names its producer but not its sequence")


def scan_headers(buffer: bytes, at: int, end: int) -> list[BatchHeader]:
    """The headers of all complete batches from `at` on, without verification of their checksums.

    Stops before the first bytes that are not a complete batch: a partial one at the end of a chunk, or damage. Batches
    are adjacent, so their sizes give the end position; `check_batch` there gives the reason for the stop.
    """
    headers: list[BatchHeader] = []
    position: i64 = at
    limit: i64 = min(end, len(buffer))
    while limit - position >= HEADER_BYTES:
        try:
            header = parse_header(buffer, position)
        except LonghallError:
            break
        if header.size_bytes > limit - position:
            break
        headers.append(header)
        position += header.size_bytes
    return headers


def stored_prefix(base_offset: int, size_bytes: int, leader_epoch: int) -> bytes:
    """The first 16 bytes of a batch as stored. The bytes after them are stored unchanged."""
    return _PREFIX.pack(base_offset, size_bytes - LENGTH_ENDS_AT, leader_epoch)


def _unpacked(buffer: bytes, at: int) -> BatchHeader:
    """Decode with one call: the fastest way in the interpreter."""
    header = BatchHeader(*_HEADER.unpack_from(buffer, at))
    header.size_bytes += LENGTH_ENDS_AT
    return header


def _indexed(buffer: bytes, at: int) -> BatchHeader:
    """Decode with native integers, no tuple and no boxing: the fastest way when compiled."""
    start: i64 = at
    return BatchHeader(
        _signed64(buffer, start),
        _signed32(buffer, start + 8) + LENGTH_ENDS_AT,
        _signed32(buffer, start + 12),
        _unsigned32(buffer, start + 17),
        _signed16(buffer, start + 21),
        _signed32(buffer, start + 23),
        _signed64(buffer, start + 27),
        _signed64(buffer, start + 35),
        _signed64(buffer, start + 43),
        _signed16(buffer, start + 51),
        _signed32(buffer, start + 53),
        _signed32(buffer, start + 57),
    )


def _signed16(buffer: bytes, at: i64) -> i64:
    value: i64 = (i64(buffer[at]) << 8) | i64(buffer[at + 1])
    return value - 0x10000 if value >= 0x8000 else value


def _unsigned32(buffer: bytes, at: i64) -> i64:
    return (i64(buffer[at]) << 24) | (i64(buffer[at + 1]) << 16) | (i64(buffer[at + 2]) << 8) | i64(buffer[at + 3])


def _signed32(buffer: bytes, at: i64) -> i64:
    value = _unsigned32(buffer, at)
    return value - 0x100000000 if value >= 0x80000000 else value


def _signed64(buffer: bytes, at: i64) -> i64:
    return (_signed32(buffer, at) << 32) | _unsigned32(buffer, at + 4)

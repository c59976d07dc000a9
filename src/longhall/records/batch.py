"""Record batches, version 2: the unit that is produced, stored, replicated and fetched.

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
    attributes: bits 0-2 compression, 3 log append time, 4 transactional, 5 control, 6 base time is a delete horizon

`length` counts what follows it. The CRC covers everything from the attributes on, so offset, length and epoch can be
patched in when a batch is stored without touching the rest (`stored_prefix`). A batch in the log may have fewer records
than its offsets span, even none: compaction keeps the header of an emptied one. This module does not know where batches
are kept, nor whether a producer was allowed to send one; `check_produced` states only what the format asks of it.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Final, final

from mypy_extensions import i64

from longhall.errors import Code, LonghallError
from longhall.records.compression import CODEC_MAX, NONE, compress, decompress
from longhall.records.crc import crc_of, crc_of_parts
from longhall.records.record import Record, append_record, parse_records
from longhall.records.varint import INT32_MAX, INT64_MAX

__all__ = [
    "HEADER_BYTES",
    "BatchHeader",
    "Record",
    "build_batch",
    "check_batch",
    "check_produced",
    "parse_header",
    "read_records",
    "scan_headers",
    "stored_prefix",
    "validate_records",
    "with_log_append_time",
]

HEADER_BYTES: Final = 61
LENGTH_ENDS_AT: Final = 12  # `length` counts from here.
CRC_COVERS_FROM: Final = 21
MAGIC: Final = 2
OPENED_BYTES_MAX: Final = 128 * 1024 * 1024  # What a batch may grow to when it is opened, unless the caller says less.

LOG_APPEND_TIME: Final = 0x08
TRANSACTIONAL: Final = 0x10
CONTROL: Final = 0x20
DELETE_HORIZON: Final = 0x40

_HEADER: Final = struct.Struct(">qiibIhiqqqhii")
_PREFIX: Final = struct.Struct(">qii")
_BEFORE_CRC: Final = struct.Struct(">qiibI")
_COVERED: Final = struct.Struct(">hiqqqhii")


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
        """The highest offset that the batch stands for, whether or not its record is still there."""
        return self.base_offset + self.last_offset_delta

    @property
    def next_offset(self) -> int:
        """The offset of whatever follows."""
        return self.base_offset + self.last_offset_delta + 1

    @property
    def last_sequence(self) -> int:
        """The producer's number of the last record; numbers go on at 0 after the largest 32-bit one."""
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
    def has_delete_horizon(self) -> bool:
        """Whether the base time says when markers and tombstones of this batch may go, as the cleaner set it."""
        return self.attributes & DELETE_HORIZON != 0


def parse_header(buffer: bytes, at: int) -> BatchHeader:
    """Read the header at `at`. The batch may be longer than the buffer; `check_batch` looks at that."""
    if at < 0 or len(buffer) - at < HEADER_BYTES:
        raise LonghallError(Code.CORRUPT_MESSAGE, "a batch is shorter than its header")
    if buffer[at + 16] != MAGIC:
        if buffer[at + 16] < MAGIC:
            raise LonghallError(Code.UNSUPPORTED_FORMAT, "message formats before version 2 are not taken")
        raise LonghallError(Code.CORRUPT_MESSAGE, "a batch has an unknown format version")
    fields: tuple[int, int, int, int, int, int, int, int, int, int, int, int, int] = _HEADER.unpack_from(buffer, at)
    base, length, epoch, _, crc, attributes, last_delta, base_ms, max_ms, producer, producer_epoch, sequence, count = (
        fields
    )
    if length < HEADER_BYTES - LENGTH_ENDS_AT or length > INT32_MAX - LENGTH_ENDS_AT:
        raise LonghallError(Code.CORRUPT_MESSAGE, "a batch's length is impossible")
    if base < 0 or last_delta < 0 or base > INT64_MAX - last_delta - 1:
        raise LonghallError(Code.CORRUPT_MESSAGE, "a batch's offsets are impossible")
    if count < 0 or count > last_delta + 1:
        raise LonghallError(Code.CORRUPT_MESSAGE, "a batch counts more records than its offsets span")
    if attributes & 0x07 > CODEC_MAX:
        raise LonghallError(Code.UNSUPPORTED_FORMAT, "a batch is compressed in an unknown way")
    return BatchHeader(
        base, length + LENGTH_ENDS_AT, epoch, crc, attributes, last_delta, base_ms, max_ms, producer, producer_epoch, sequence, count
    )  # fmt: skip


def check_batch(buffer: bytes, at: int, end: int) -> BatchHeader:
    """Read the header at `at` and see that the whole batch stands before `end` and has its CRC."""
    header = parse_header(buffer, at)
    if end > len(buffer) or header.size_bytes > end - at:
        raise LonghallError(Code.CORRUPT_MESSAGE, "a batch is cut short")
    if crc_of(buffer, at + CRC_COVERS_FROM, at + header.size_bytes) != header.crc:
        raise LonghallError(Code.CORRUPT_MESSAGE, "a batch does not have its checksum")
    return header


def check_produced(header: BatchHeader) -> None:
    """Refuse a header that no producer may send: gaps, no records, a marker, a sequence that is missing."""
    if header.record_count == 0 or header.record_count != header.last_offset_delta + 1:
        raise LonghallError(Code.CORRUPT_MESSAGE, "a produced batch must have one record an offset")
    if header.is_control:
        raise LonghallError(Code.INVALID_REQUEST, "producers do not write markers")
    if header.producer_id >= 0 and (header.base_sequence < 0 or header.producer_epoch < 0):
        raise LonghallError(Code.CORRUPT_MESSAGE, "a batch names its producer but not its sequence")


def scan_headers(buffer: bytes, at: int, end: int) -> list[BatchHeader]:
    """The headers of all whole batches from `at` on, without looking at their checksums.

    Stops before the first thing that is not a whole batch: a partial one at the end of a chunk, or damage. Batches stand
    one after another, so the sizes tell how far it came; `check_batch` there tells why it stopped.
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
    """The first 16 bytes of a batch as stored. What follows them is stored as it came."""
    return _PREFIX.pack(base_offset, size_bytes - LENGTH_ENDS_AT, leader_epoch)


def read_records(buffer: bytes, at: int, size_bytes_max: int = OPENED_BYTES_MAX) -> list[Record]:
    """All records of the batch at `at`, which must be whole; its checksum is not looked at.

    Refuses a batch that needs more than `size_bytes_max` when it is decompressed.
    """
    header = parse_header(buffer, at)
    end = at + header.size_bytes
    if end > len(buffer):
        raise LonghallError(Code.CORRUPT_MESSAGE, "a batch is cut short")
    if header.compression == NONE:
        body = buffer
        start = at + HEADER_BYTES
    else:
        body = decompress(header.compression, buffer[at + HEADER_BYTES : end], size_bytes_max)
        start = 0
        end = len(body)
    records = parse_records(body, start, end, header.record_count, header.base_offset, header.base_timestamp_ms)
    if records and records[-1].offset > header.last_offset:
        raise LonghallError(Code.CORRUPT_MESSAGE, "a record's offset lies behind its batch")
    if header.is_log_append_time:
        for record in records:
            record.timestamp_ms = header.max_timestamp_ms
    return records


def validate_records(
    buffer: bytes, at: int, keys_required: bool = False, size_bytes_max: int = OPENED_BYTES_MAX
) -> int:
    """Open the batch at `at`, see that its records are well formed, and return how many there are.

    Producing does not open batches otherwise; compacted topics do, because a record without a key could never go away.
    """
    records = read_records(buffer, at, size_bytes_max)
    if keys_required:
        for record in records:
            if record.key is None:
                raise LonghallError(Code.KEY_REQUIRED, "a compacted topic takes no message without a key")
    return len(records)


def build_batch(
    records: Sequence[Record],
    base_offset: int = 0,
    leader_epoch: int = -1,
    producer_id: int = -1,
    producer_epoch: int = -1,
    base_sequence: int = -1,
    compression: int = NONE,
    transactional: bool = False,
    log_append_time: bool = False,
    control: bool = False,
    last_offset: int = -1,
    delete_horizon_ms: int = -1,
    max_timestamp_ms: int = -1,
) -> bytes:
    """One batch of these records. Offsets ascend from `base_offset`; a record without one (-1) follows the one before.

    The cleaner gives the last three: the offset that the batch spans to, the time after which its markers and tombstones
    may go, and the newest timestamp, none of which the remaining records can tell. A batch without records needs `last_offset`.
    """
    attributes = compression
    if log_append_time:
        attributes |= LOG_APPEND_TIME
    if transactional:
        attributes |= TRANSACTIONAL
    if control:
        attributes |= CONTROL
    base_ms = records[0].timestamp_ms if records else max_timestamp_ms
    if delete_horizon_ms >= 0:
        attributes |= DELETE_HORIZON
        base_ms = delete_horizon_ms
    body = bytearray()
    offset = base_offset - 1
    newest_ms = max_timestamp_ms
    for record in records:
        previous = offset
        offset = record.offset if record.offset >= 0 else previous + 1
        if offset <= previous:
            raise LonghallError(Code.INVALID_REQUEST, "the offsets of a batch must ascend from its base")
        append_record(body, record, offset - base_offset, record.timestamp_ms - base_ms)
        newest_ms = max(newest_ms, record.timestamp_ms)
    if last_offset >= 0:
        if last_offset < max(offset, base_offset):
            raise LonghallError(Code.INVALID_REQUEST, "a batch must span its records")
        offset = last_offset
    if offset < base_offset:
        raise LonghallError(Code.INVALID_REQUEST, "a batch without records needs its last offset")
    payload = compress(compression, bytes(body))
    covered = _COVERED.pack(
        attributes, offset - base_offset, base_ms, newest_ms, producer_id, producer_epoch, base_sequence, len(records)
    )
    return assemble(base_offset, leader_epoch, covered, payload)


def assemble(base_offset: int, leader_epoch: int, covered: bytes, payload: bytes) -> bytes:
    """Put a batch together from the header bytes that the CRC covers (21 to 61) and the records as they are stored."""
    length = HEADER_BYTES - LENGTH_ENDS_AT + len(payload)
    if length > INT32_MAX - LENGTH_ENDS_AT:
        raise LonghallError(Code.MESSAGE_TOO_LARGE, "a batch cannot be larger than 2 GiB")
    crc = crc_of_parts(covered, payload)
    return b"".join((_BEFORE_CRC.pack(base_offset, length, leader_epoch, MAGIC, crc), covered, payload))


def with_log_append_time(batch: bytes, timestamp_ms: int) -> bytes:
    """The same batch stamped by the broker: readers see this time on all its records."""
    header = parse_header(batch, 0)
    if header.size_bytes != len(batch):
        raise LonghallError(Code.CORRUPT_MESSAGE, "a batch is cut short")
    covered = _COVERED.pack(
        header.attributes | LOG_APPEND_TIME,
        header.last_offset_delta,
        header.base_timestamp_ms,
        timestamp_ms,
        header.producer_id,
        header.producer_epoch,
        header.base_sequence,
        header.record_count,
    )
    return assemble(header.base_offset, header.leader_epoch, covered, batch[HEADER_BYTES:])

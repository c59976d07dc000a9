"""Record batches, version 2: building, opening and stamping them. `header` has their layout.

Only some callers need the records of a batch (our client, the cleaner, compacted topics); all others pass the batch
through. The reader bounds the decompressed size. This module does not know where batches are stored.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Final

from crc32c import crc32c

from longhall.errors import Code, LonghallError
from longhall.records.compression import NONE, compress, decompress
from longhall.records.header import (
    CONTROL,
    CRC_COVERS_FROM,
    DELETE_HORIZON,
    HEADER_BYTES,
    LENGTH_ENDS_AT,
    LOG_APPEND_TIME,
    MAGIC,
    RECORD_COUNT_AT,
    TRANSACTIONAL,
    BatchHeader,
    check_batch,
    check_produced,
    parse_header,
    scan_headers,
    stored_prefix,
)
from longhall.records.record import Record, append_record, parse_records
from longhall.records.varint import INT32_MAX

__all__ = [
    "CRC_COVERS_FROM",
    "HEADER_BYTES",
    "BatchHeader",
    "Record",
    "build_batch",
    "check_batch",
    "check_produced",
    "count_records",
    "pack_batch",
    "parse_header",
    "read_records",
    "scan_headers",
    "stored_prefix",
    "validate_records",
    "with_log_append_time",
    "with_producer",
]

# The largest decompressed size of a batch, unless the caller gives a lower one.
OPENED_BYTES_MAX: Final = 128 * 1024 * 1024

_BEFORE_CRC: Final = struct.Struct(">qiibI")
_COVERED: Final = struct.Struct(">hiqqqhii")


def read_records(buffer: bytes, at: int, size_bytes_max: int = OPENED_BYTES_MAX) -> list[Record]:
    """All records of the batch at `at`, which must be complete; its checksum is not verified.

    Refuses a batch that is larger than `size_bytes_max` when it is decompressed, and a sealed one (SEALED).
    """
    header = parse_header(buffer, at)
    end = at + header.size_bytes
    if end > len(buffer):
        raise LonghallError(Code.CORRUPT_MESSAGE, "a batch is truncated")
    if header.is_sealed:
        raise LonghallError(Code.SEALED, "the batch is sealed: its records are readable with its key only")
    if header.compression == NONE:
        body = buffer
        start = at + HEADER_BYTES
    else:
        body = decompress(header.compression, buffer[at + HEADER_BYTES : end], size_bytes_max)
        start = 0
        end = len(body)
    records = parse_records(body, start, end, header.record_count, header.base_offset, header.base_timestamp_ms)
    if records and records[-1].offset > header.last_offset:
        raise LonghallError(Code.CORRUPT_MESSAGE, "the offset of a record is after the last offset of its batch")
    if header.is_log_append_time:
        for record in records:
            record.timestamp_ms = header.max_timestamp_ms
    return records


def validate_records(
    buffer: bytes, at: int, keys_required: bool = False, size_bytes_max: int = OPENED_BYTES_MAX
) -> int:
    """Open the batch at `at`, check that its records are well formed, and return their number.

    Other produce requests do not open batches; compacted topics do, because a record without a key could never be
    removed.
    """
    records = read_records(buffer, at, size_bytes_max)
    if keys_required:
        for record in records:
            if record.key is None:
                raise LonghallError(Code.KEY_REQUIRED, "a compacted topic does not accept messages without a key")
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
    compression_level: int | None = None,
) -> bytes:
    """One batch of these records. Offsets ascend from `base_offset`; a record without one (-1) follows the one before.

    The cleaner gives the last three: the last offset of the batch, the time after which its markers and tombstones may
    be removed, and the newest timestamp; the remaining records do not show them. A batch without records needs
    `last_offset`.
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
    payload = bytes(body)
    if compression != NONE:
        payload = compress(compression, payload, compression_level)
    covered = _COVERED.pack(
        attributes, offset - base_offset, base_ms, newest_ms, producer_id, producer_epoch, base_sequence, len(records)
    )
    return assemble(base_offset, leader_epoch, covered, payload)


def assemble(base_offset: int, leader_epoch: int, covered: bytes, payload: bytes) -> bytes:
    """Assemble a batch from the header bytes that the CRC covers (21 to 61) and the records as stored."""
    length = HEADER_BYTES - LENGTH_ENDS_AT + len(payload)
    if length > INT32_MAX - LENGTH_ENDS_AT:
        raise LonghallError(Code.MESSAGE_TOO_LARGE, "a batch cannot be larger than 2 GiB")
    crc = crc32c(payload, crc32c(covered))
    return b"".join((_BEFORE_CRC.pack(base_offset, length, leader_epoch, MAGIC, crc), covered, payload))


def pack_batch(body: bytes, count: int, base_ms: int, newest_ms: int, compression: int = NONE) -> bytes:
    """One batch of encoded records, with offset deltas from 0 on and times relative to `base_ms`.

    It has no producer yet: see `with_producer`.
    """
    assert count > 0, "a batch has at least one record"
    covered = _COVERED.pack(compression, count - 1, base_ms, newest_ms, -1, -1, -1, count)
    return assemble(0, -1, covered, compress(compression, body))


def with_producer(
    batch: bytes, producer_id: int, producer_epoch: int, base_sequence: int, transactional: bool = False
) -> bytes:
    """The same batch as sent by this producer; its records are neither opened nor compressed again."""
    header = parse_header(batch, 0)
    if header.size_bytes != len(batch):
        raise LonghallError(Code.CORRUPT_MESSAGE, "a batch is truncated")
    covered = _COVERED.pack(
        header.attributes | TRANSACTIONAL if transactional else header.attributes & ~TRANSACTIONAL,
        header.last_offset_delta,
        header.base_timestamp_ms,
        header.max_timestamp_ms,
        producer_id,
        producer_epoch,
        base_sequence,
        header.record_count,
    )
    return assemble(header.base_offset, header.leader_epoch, covered, batch[HEADER_BYTES:])


def with_log_append_time(batch: bytes, timestamp_ms: int) -> bytes:
    """The same batch stamped by the broker: readers see this time on all its records."""
    header = parse_header(batch, 0)
    if header.size_bytes != len(batch):
        raise LonghallError(Code.CORRUPT_MESSAGE, "a batch is truncated")
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


def count_records(buffers: Sequence[bytes | bytearray | memoryview]) -> int:
    """The messages in whole batches, markers left out."""
    count = 0
    for buffer in buffers:
        at = 0
        while at + HEADER_BYTES <= len(buffer):
            if not buffer[at + CRC_COVERS_FROM + 1] & CONTROL:
                count += int.from_bytes(buffer[at + RECORD_COUNT_AT : at + HEADER_BYTES], "big")
            at += LENGTH_ENDS_AT + int.from_bytes(buffer[at + LENGTH_ENDS_AT - 4 : at + LENGTH_ENDS_AT], "big")
    return count

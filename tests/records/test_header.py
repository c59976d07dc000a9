"""Batch headers: both decoders agree, and impossible headers are refused."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from longhall.errors import Code, LonghallError
from longhall.records import header as header_module
from longhall.records.batch import (
    HEADER_BYTES,
    BatchHeader,
    Record,
    build_batch,
    check_batch,
    check_produced,
    parse_header,
    scan_headers,
    stored_prefix,
)
from tests.records.strategies import plain

FIELDS = [
    "base_offset",
    "size_bytes",
    "leader_epoch",
    "crc",
    "attributes",
    "last_offset_delta",
    "base_timestamp_ms",
    "max_timestamp_ms",
    "producer_id",
    "producer_epoch",
    "base_sequence",
    "record_count",
]


def values(header: BatchHeader) -> list[int]:
    return [getattr(header, field) for field in FIELDS]


def refused(code: Code, buffer: bytes, at: int = 0) -> None:
    with pytest.raises(LonghallError) as caught:
        check_batch(buffer, at, len(buffer))
    assert caught.value.code is code


@given(st.binary(min_size=HEADER_BYTES, max_size=HEADER_BYTES + 8), st.integers(0, 8))
def test_both_decoders_agree(buffer: bytes, at: int) -> None:
    at = min(at, len(buffer) - HEADER_BYTES)
    assert values(header_module._indexed(buffer, at)) == values(header_module._unpacked(buffer, at))


def test_every_field_is_where_the_format_says() -> None:
    batch = build_batch(
        plain(3, base_offset=41),
        base_offset=41,
        leader_epoch=7,
        producer_id=2**40,
        producer_epoch=12,
        base_sequence=99,
        transactional=True,
    )
    header = parse_header(b"xx" + batch, 2)
    assert header.base_offset == 41 == struct.unpack_from(">q", batch, 0)[0]
    assert header.size_bytes == len(batch)
    assert header.leader_epoch == 7
    assert header.last_offset == 43
    assert header.next_offset == 44
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (2**40, 12, 99)
    assert header.last_sequence == 101
    assert header.record_count == 3
    assert header.base_timestamp_ms == 1_700_000_000_000
    assert header.max_timestamp_ms == 1_700_000_000_002
    assert header.is_transactional
    assert not header.is_control
    assert not header.is_log_append_time
    assert not header.has_delete_horizon


def test_sequences_wrap_to_zero() -> None:
    batch = build_batch(plain(3), producer_id=1, producer_epoch=0, base_sequence=2**31 - 2)
    assert parse_header(batch, 0).last_sequence == 0


def test_the_stored_prefix_replaces_sixteen_bytes_and_the_checksum_stays_valid() -> None:
    batch = build_batch(plain(2))
    stored = stored_prefix(1000, len(batch), 5) + batch[16:]
    header = check_batch(stored, 0, len(stored))
    assert (header.base_offset, header.leader_epoch, header.size_bytes) == (1000, 5, len(batch))


def test_damage_is_refused() -> None:
    batch = build_batch(plain(4))
    for position in (21, 30, 60, 61, len(batch) - 1):
        flipped = bytearray(batch)
        flipped[position] ^= 0x10
        refused(Code.CORRUPT_MESSAGE, bytes(flipped))
    refused(Code.CORRUPT_MESSAGE, batch[:-1])
    refused(Code.CORRUPT_MESSAGE, batch[:60])
    refused(Code.CORRUPT_MESSAGE, b"")
    refused(Code.CORRUPT_MESSAGE, batch, -1)


@pytest.mark.parametrize(
    ("at", "spelt"),
    [
        (0, struct.pack(">q", -1)),
        (0, struct.pack(">q", 2**63 - 1)),
        (8, struct.pack(">i", 48)),
        (8, struct.pack(">i", -1)),
        (8, struct.pack(">i", 2**31 - 1)),
        (23, struct.pack(">i", -1)),
        (57, struct.pack(">i", -1)),
        (57, struct.pack(">i", 5)),
        (16, b"\x03"),
        (16, b"\xff"),
    ],
)
def test_impossible_headers_are_refused(at: int, spelt: bytes) -> None:
    batch = bytearray(build_batch(plain(4)))
    batch[at : at + len(spelt)] = spelt
    with pytest.raises(LonghallError) as caught:
        parse_header(bytes(batch), 0)
    assert caught.value.code is Code.CORRUPT_MESSAGE


@pytest.mark.parametrize("magic", [0, 1])
def test_old_formats_are_refused_as_unsupported(magic: int) -> None:
    batch = bytearray(build_batch(plain(1)))
    batch[16] = magic
    refused(Code.UNSUPPORTED_FORMAT, bytes(batch))


@pytest.mark.parametrize("codec", [5, 6, 7])
def test_unknown_compressions_are_refused(codec: int) -> None:
    batch = bytearray(build_batch(plain(1)))
    batch[22] |= codec
    refused(Code.UNSUPPORTED_FORMAT, bytes(batch))


def test_scanning_stops_at_a_partial_batch_and_at_damage() -> None:
    batches = [build_batch(plain(n, base_offset=n * 10), base_offset=n * 10) for n in (1, 2, 3)]
    chunk = b"".join(batches)
    assert [h.base_offset for h in scan_headers(chunk, 0, len(chunk))] == [10, 20, 30]
    assert [h.base_offset for h in scan_headers(chunk, len(batches[0]), len(chunk))] == [20, 30]
    assert [h.base_offset for h in scan_headers(chunk, 0, len(chunk) - 1)] == [10, 20]
    assert [h.base_offset for h in scan_headers(chunk[:-1], 0, len(chunk))] == [10, 20]
    damaged = batches[0] + b"\x00" * 100 + batches[1]
    assert [h.base_offset for h in scan_headers(damaged, 0, len(damaged))] == [10]
    assert scan_headers(b"", 0, 0) == []
    assert scan_headers(chunk, -5, len(chunk)) == []


def test_headers_that_producers_must_not_send_are_refused() -> None:
    check_produced(parse_header(build_batch(plain(2)), 0))
    gap = build_batch([Record(0, 0, b"a", b""), Record(2, 0, b"b", b"")])
    empty = build_batch([], last_offset=3)
    marker = build_batch(plain(1), control=True)
    unnumbered = build_batch(plain(1), producer_id=4, producer_epoch=0)
    for batch in (gap, empty, marker, unnumbered):
        with pytest.raises(LonghallError):
            check_produced(parse_header(batch, 0))

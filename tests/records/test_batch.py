"""Batches: built ones are read back, and damaged bytes raise nothing but LonghallError."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from longhall.errors import Code, LonghallError
from longhall.records.batch import (
    Record,
    build_batch,
    check_batch,
    read_records,
    scan_headers,
    validate_records,
    with_log_append_time,
)
from longhall.records.header import HEADER_BYTES
from tests.examples import examples
from tests.records.strategies import CODECS, plain, records


@given(records(base_offset=5), CODECS, st.binary(max_size=5))
def test_round_trip(sent: list[Record], codec: int, before: bytes) -> None:
    batch = build_batch(sent, base_offset=3, compression=codec)
    buffer = before + batch + b"tail"
    header = check_batch(buffer, len(before), len(before) + len(batch))
    assert read_records(buffer, len(before)) == sent
    assert header.last_offset == sent[-1].offset
    assert header.max_timestamp_ms == max(record.timestamp_ms for record in sent)
    assert header.compression == codec


@given(records(), CODECS, st.data())
@settings(max_examples=examples(300))
def test_mutated_bytes_raise_only_longhall_errors(sent: list[Record], codec: int, data: st.DataObject) -> None:
    batch = bytearray(build_batch(sent, compression=codec))
    for _ in range(data.draw(st.integers(1, 4))):
        batch[data.draw(st.integers(0, len(batch) - 1))] = data.draw(st.integers(0, 255))
    buffer = bytes(batch[: data.draw(st.integers(0, len(batch)))])
    for opened in (read_records, validate_records):
        try:
            opened(buffer, 0)
        except LonghallError:
            pass
    scan_headers(buffer, 0, len(buffer))


@given(st.binary(max_size=300), CODECS)
def test_arbitrary_bodies_raise_only_longhall_errors(body: bytes, codec: int) -> None:
    template = build_batch(plain(3), compression=codec)
    header = bytearray(template[:HEADER_BYTES])
    header[8:12] = (HEADER_BYTES - 12 + len(body)).to_bytes(4, "big")
    try:
        read_records(bytes(header) + body, 0, size_bytes_max=100_000)
    except LonghallError:
        pass


def test_records_without_an_offset_follow_one_another() -> None:
    batch = build_batch([Record(-1, 5, None, b"a"), Record(-1, 6, None, b"b")], base_offset=70)
    assert [record.offset for record in read_records(batch, 0)] == [70, 71]


def test_offsets_must_ascend() -> None:
    for offsets in ((1, 1), (2, 1)):
        with pytest.raises(LonghallError):
            build_batch([Record(offset, 0, None, None) for offset in offsets])
    with pytest.raises(LonghallError):
        build_batch([Record(3, 0, None, None)], base_offset=4)
    with pytest.raises(LonghallError):
        build_batch([])
    with pytest.raises(LonghallError):
        build_batch(plain(5), last_offset=3)


def test_an_emptied_batch_keeps_its_span() -> None:
    batch = build_batch([], base_offset=9, last_offset=12, producer_id=1, producer_epoch=2, base_sequence=3)
    header = check_batch(batch, 0, len(batch))
    assert (header.record_count, header.next_offset, header.last_sequence) == (0, 13, 6)
    assert read_records(batch, 0) == []


def test_a_delete_horizon_does_not_change_what_readers_see() -> None:
    sent = plain(3)
    batch = build_batch(sent, delete_horizon_ms=1_800_000_000_000)
    header = check_batch(batch, 0, len(batch))
    assert header.has_delete_horizon
    assert header.base_timestamp_ms == 1_800_000_000_000
    assert read_records(batch, 0) == sent


@pytest.mark.parametrize("codec", range(5))
def test_log_append_time_is_seen_on_every_record(codec: int) -> None:
    batch = build_batch(plain(3), base_offset=0, leader_epoch=4, compression=codec)
    stamped = with_log_append_time(batch, 1_900_000_000_000)
    header = check_batch(stamped, 0, len(stamped))
    assert header.is_log_append_time
    assert header.leader_epoch == 4
    assert header.compression == codec
    assert {record.timestamp_ms for record in read_records(stamped, 0)} == {1_900_000_000_000}
    with pytest.raises(LonghallError):
        with_log_append_time(batch[:-1], 0)


def test_compacted_topics_need_keys() -> None:
    keyed = build_batch(plain(3))
    assert validate_records(keyed, 0, keys_required=True) == 3
    batch = build_batch([Record(0, 0, b"k", b""), Record(1, 0, None, b"")])
    assert validate_records(batch, 0) == 2
    with pytest.raises(LonghallError) as caught:
        validate_records(batch, 0, keys_required=True)
    assert caught.value.code is Code.KEY_REQUIRED


@pytest.mark.parametrize("codec", [1, 2, 3, 4])
def test_the_decompressed_size_is_bounded(codec: int) -> None:
    batch = build_batch([Record(0, 0, None, b"\x00" * 2_000_000)], compression=codec)
    assert len(read_records(batch, 0)) == 1
    with pytest.raises(LonghallError) as caught:
        read_records(batch, 0, size_bytes_max=1_000_000)
    assert caught.value.code is Code.MESSAGE_TOO_LARGE


def test_a_record_count_beyond_the_bytes_is_refused_before_reading() -> None:
    batch = bytearray(build_batch(plain(1)))
    batch[23:27] = (2**31 - 2).to_bytes(4, "big")
    batch[57:61] = (2**31 - 1).to_bytes(4, "big")
    with pytest.raises(LonghallError) as caught:
        read_records(bytes(batch), 0)
    assert caught.value.code is Code.CORRUPT_MESSAGE


def test_timestamps_that_do_not_fit_are_refused() -> None:
    batch = bytearray(build_batch([Record(0, 10, None, b""), Record(1, 2**62, None, b"")]))
    batch[27:35] = (2**63 - 1).to_bytes(8, "big")
    with pytest.raises(LonghallError):
        read_records(bytes(batch), 0)


def test_header_names_must_be_text() -> None:
    batch = build_batch([Record(0, 0, None, None, (("ab", b""),))])
    with pytest.raises(LonghallError):
        read_records(batch.replace(b"ab", b"\xff\xfe"), 0)

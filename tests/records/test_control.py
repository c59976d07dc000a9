"""Markers: encoded as clients expect them; unknown types are skipped."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kafka.record.default_records import DefaultRecordBatch

from longhall.errors import LonghallError
from longhall.records.batch import Record, build_batch, check_batch, parse_header
from longhall.records.control import build_marker, parse_marker


@pytest.mark.parametrize("commit", [True, False])
def test_round_trip(commit: bool) -> None:
    batch = build_marker(commit, producer_id=8, producer_epoch=3, coordinator_epoch=11, timestamp_ms=77, base_offset=50)
    header = check_batch(batch, 0, len(batch))
    assert header.is_control
    assert header.is_transactional
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (8, 3, -1)
    assert (header.base_offset, header.record_count, header.max_timestamp_ms) == (50, 1, 77)
    marker = parse_marker(batch, 0, header)
    assert marker is not None
    assert marker.commit is commit
    assert marker.coordinator_epoch == 11


@pytest.mark.parametrize("commit", [True, False])
def test_clients_read_our_markers(commit: bool) -> None:
    batch = build_marker(commit, 8, 3, 11, 77)
    control = next(iter(DefaultRecordBatch(batch)))
    assert control.version == 0
    assert control.commit is commit
    assert control.abort is not commit


def test_other_types_and_emptied_markers_are_skipped() -> None:
    unknown = build_batch([Record(0, 0, b"\x00\x00\x00\x02", b"")], control=True)
    assert parse_marker(unknown, 0, parse_header(unknown, 0)) is None
    emptied = build_batch([], last_offset=0, control=True)
    assert parse_marker(emptied, 0, parse_header(emptied, 0)) is None


@given(st.none() | st.binary(max_size=6), st.none() | st.binary(max_size=8))
def test_malformed_markers_raise_only_longhall_errors(key: bytes | None, value: bytes | None) -> None:
    batch = build_batch([Record(0, 0, key, value)], control=True)
    try:
        parse_marker(batch, 0, parse_header(batch, 0))
    except LonghallError:
        pass


@pytest.mark.parametrize(
    ("key", "value"), [(None, b""), (b"\x00", b""), (b"\x00\x00\x00\x01", None), (b"\xff\xff\x00\x01", b"")]
)
def test_markers_without_content_are_refused(key: bytes | None, value: bytes | None) -> None:
    batch = build_batch([Record(0, 0, key, value)], control=True)
    with pytest.raises(LonghallError):
        parse_marker(batch, 0, parse_header(batch, 0))

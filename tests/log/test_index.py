"""The sparse index: it never points after the target, and a damaged file is refused."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from longhall.errors import Code, LonghallError
from longhall.log.index import Index, Summary, decode_index


@st.composite
def batches(draw: st.DrawFn) -> list[tuple[int, int, int]]:
    """Relative offset, position and newest timestamp of every batch of a segment; times may decrease."""
    out: list[tuple[int, int, int]] = []
    offset = 0
    position = 0
    for _ in range(draw(st.integers(0, 40))):
        out.append((offset, position, draw(st.integers(-1, 50))))
        offset += draw(st.integers(1, 5))
        position += draw(st.integers(61, 300))
    return out


def indexed(segment: list[tuple[int, int, int]], every: int) -> Index:
    index = Index()
    newest = -1
    for number, (offset, position, timestamp) in enumerate(segment):
        newest = max(newest, timestamp)
        if number % every == 0:
            index.append(offset, position, newest)
    return index


@given(batches(), st.integers(1, 6), st.integers(0, 250))
def test_a_scan_from_the_position_finds_the_offset(
    segment: list[tuple[int, int, int]], every: int, wanted: int
) -> None:
    start = indexed(segment, every).position_for_offset(wanted)
    holding = [position for offset, position, _ in segment if offset <= wanted]
    assert start <= (holding[-1] if holding else 0)
    assert start == 0 or start in [position for _, position, _ in segment]


@given(batches(), st.integers(1, 6), st.integers(-1, 60))
def test_a_scan_from_the_position_finds_the_first_batch_of_a_time(
    segment: list[tuple[int, int, int]], every: int, wanted: int
) -> None:
    index = indexed(segment, every)
    start = index.position_for_timestamp(wanted)
    first = next((position for _, position, timestamp in segment if timestamp >= wanted), None)
    assert first is None or start <= first
    relative = index.offset_for_timestamp(wanted)
    assert index.position_for_offset(relative) == start


def test_the_position_is_within_one_interval() -> None:
    segment = [(n, n * 100, n) for n in range(1000)]
    index = indexed(segment, 10)
    assert index.position_for_offset(557) == 55_000
    assert index.position_for_timestamp(557) == 55_000
    assert index.last_position() == 99_000
    assert len(index) == 100


@given(batches(), st.integers(1, 6), st.integers(0, 2**40))
def test_round_trip(segment: list[tuple[int, int, int]], every: int, number: int) -> None:
    index = indexed(segment, every)
    summary = Summary(number, number + 1, number + 2, number + 3, number + 4, number + 5)
    data = index.encode(summary)
    again, summary_again = decode_index(data)
    assert vars_of(summary_again) == vars_of(summary)
    assert again.encode(summary_again) == data
    for offset, position, timestamp in segment:
        assert again.position_for_offset(offset) == index.position_for_offset(offset) <= position
        assert again.position_for_timestamp(timestamp) == index.position_for_timestamp(timestamp)


@given(batches(), st.data())
def test_damage_is_refused(segment: list[tuple[int, int, int]], data: st.DataObject) -> None:
    encoded = bytearray(indexed(segment, 2).encode(Summary(1, 2)))
    at = data.draw(st.integers(0, len(encoded) - 1))
    encoded[at] ^= data.draw(st.integers(1, 255))
    cut = bytes(encoded[: data.draw(st.integers(0, len(encoded) - 1))])
    for damaged in (bytes(encoded), cut, b"", bytes(encoded) + b"\x00"):
        with pytest.raises(LonghallError) as caught:
            decode_index(damaged)
        assert caught.value.code is Code.STORAGE_DAMAGED


@given(batches(), st.integers(1, 6), st.integers(0, 12_000))
def test_a_truncated_index_equals_that_of_the_truncated_segment(
    segment: list[tuple[int, int, int]], every: int, size: int
) -> None:
    index = indexed(segment, every)
    index.cut(size)
    kept = indexed([batch for batch in segment if batch[1] < size], every)
    assert index.encode(Summary(0, 0)) == kept.encode(Summary(0, 0))


def test_entries_must_ascend() -> None:
    index = Index()
    index.append(0, 0, 5)
    for offset, position in ((0, 10), (1, 0)):
        with pytest.raises(AssertionError):
            index.append(offset, position, 5)
    index.append(1, 100, 3)
    assert index.position_for_timestamp(4) == 0, "a decreasing time does not hide an earlier batch"


def vars_of(summary: Summary) -> tuple[int, ...]:
    return (
        summary.size_bytes,
        summary.next_offset,
        summary.max_timestamp_ms,
        summary.max_timestamp_offset,
        summary.record_count,
        summary.batch_count,
    )

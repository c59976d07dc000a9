"""Offsets into ranges: nothing is left out, nothing is read twice, limits hold."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from longhall.pipeline.options import Offsets
from longhall.pipeline.plan import Range, from_json, limit_bytes, limit_rows, ranges_between, split, to_json

offsets = st.dictionaries(
    st.sampled_from(["a", "b"]), st.dictionaries(st.integers(0, 4), st.integers(0, 1000), min_size=1), min_size=1
)


def after(start: Offsets, sizes: list[int]) -> Offsets:
    """Ends behind a start, by sizes that are used over and over."""
    count = iter(sizes * 20)
    return {topic: {part: offset + next(count) for part, offset in parts.items()} for topic, parts in start.items()}


def test_offsets_are_kafkas_json_with_sorted_keys() -> None:
    document = to_json({"b": {10: 1, 9: 2}, "a": {0: 3}}, {"b": "ff", "a": "00"})
    assert list(document) == ["#ids", "a", "b"]
    assert list(document["b"].items()) == [("9", 2), ("10", 1)]
    assert from_json(document) == ({"a": {0: 3}, "b": {9: 2, 10: 1}}, {"a": "00", "b": "ff"})


def test_offsets_of_the_kafka_source_have_no_ids() -> None:
    assert from_json('{"a":{"0":3}}') == ({"a": {0: 3}}, {})


@given(offsets, st.lists(st.integers(0, 500), min_size=1, max_size=10))
def test_ranges_cover_what_lies_between(start: Offsets, sizes: list[int]) -> None:
    end = after(start, sizes)
    ranges = ranges_between(start, end)
    assert all(each.size > 0 for each in ranges)
    assert sum(each.size for each in ranges) == sum(
        end[topic][part] - offset for topic, parts in start.items() for part, offset in parts.items()
    )


@given(offsets, st.lists(st.integers(0, 500), min_size=1, max_size=10), st.integers(1, 3000))
def test_a_row_limit_holds_and_every_partition_advances(start: Offsets, sizes: list[int], rows_max: int) -> None:
    end = after(start, sizes)
    limited = limit_rows(start, end, rows_max)
    whole, part = ranges_between(start, end), ranges_between(start, limited)
    # A partition always gets on by one, so many partitions may exceed a tiny limit by one each.
    assert sum(each.size for each in part) <= max(rows_max, 1) + len(whole)
    assert len(part) == len(whole)
    if sum(each.size for each in whole) <= rows_max:
        assert limited == end


def test_a_limit_is_shared_in_proportion() -> None:
    assert limit_rows({"a": {0: 0, 1: 0}}, {"a": {0: 900, 1: 100}}, 100) == {"a": {0: 90, 1: 10}}


def test_a_limit_of_bytes_is_one_of_rows_by_their_size() -> None:
    start, end = {"a": {0: 0}}, {"a": {0: 1000}}
    assert limit_bytes(start, end, 10_000, {("a", 0): 100.0}) == {"a": {0: 100}}
    assert limit_bytes(start, end, 1_000_000, {("a", 0): 100.0}) == end


@given(
    offsets,
    st.lists(st.integers(1, 500), min_size=1, max_size=10),
    st.none() | st.integers(1, 40),
    st.none() | st.integers(1, 100),
)
def test_split_ranges_have_every_offset_once(
    start: Offsets, sizes: list[int], partitions_min: int | None, rows_max: int | None
) -> None:
    ranges = ranges_between(start, after(start, sizes))
    pieces = split(ranges, partitions_min, rows_max)
    seen = [(each.topic, each.partition, offset) for each in pieces for offset in range(each.start, each.end)]
    wanted = [(each.topic, each.partition, offset) for each in ranges for offset in range(each.start, each.end)]
    assert seen == wanted
    if rows_max is not None:
        assert all(each.size <= rows_max for each in pieces)


def test_more_tasks_than_partitions() -> None:
    pieces = split([Range("a", 0, 0, 90), Range("a", 1, 0, 10)], 10, None)
    assert len(pieces) == 10
    assert [each.size for each in pieces if each.partition == 0] == [10] * 9

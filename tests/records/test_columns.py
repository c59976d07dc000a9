"""The column decoder returns and refuses the same as `read_records`."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from longhall.errors import Code, LonghallError
from longhall.records.batch import HEADER_BYTES, Record, build_batch, parse_header, read_records
from longhall.records.columns import HEADERS, KEY, NOT_STAMPED, OFFSET, TIMES_MAX, TIMESTAMP, VALUE, Columns
from longhall.records.varint import INT64_MAX, INT64_MIN

EVERYTHING = KEY | VALUE | OFFSET | TIMESTAMP | HEADERS

nullable = st.none() | st.binary(max_size=200)
records = st.builds(
    Record,
    st.just(-1),
    st.integers(-(1 << 52), 1 << 52),
    nullable,
    nullable,
    st.lists(st.tuples(st.text(max_size=8), st.none() | st.binary(max_size=9)), max_size=3).map(tuple),
)


def add(columns: Columns, batch: bytes, shift: int = 0) -> None:
    header = parse_header(batch, 0)
    append_ms = header.max_timestamp_ms if header.is_log_append_time else NOT_STAMPED
    columns.add(
        batch,
        HEADER_BYTES,
        len(batch),
        header.record_count,
        header.base_offset,
        header.last_offset,
        header.base_timestamp_ms,
        append_ms,
        shift,
    )


def pieces(bounds: bytes, nulls: bytes, data: bytes) -> list[bytes | None]:
    edges = struct.unpack(f"<{len(bounds) // 4}i", bounds)
    found: list[bytes | None] = [data[begin:end] for begin, end in zip(edges[::2], edges[1::2], strict=True)]
    for number in struct.unpack(f"<{len(nulls) // 8}q", nulls):
        assert found[number] == b""
        found[number] = None
    assert list(edges) == sorted(edges), "the bounds of a column ascend"
    return found


def rows(columns: Columns, data: bytes) -> list[Record]:
    """The columns as records again."""
    count = int(columns.rows)
    keys = pieces(columns.keys.getvalue(), columns.key_nulls.getvalue(), data)
    values = pieces(columns.values.getvalue(), columns.value_nulls.getvalue(), data)
    offsets = struct.unpack(f"<{count}q", columns.offsets.getvalue())
    times = struct.unpack(f"<{count}q", columns.times.getvalue())
    names = pieces(columns.header_names.getvalue(), b"", data)
    header_values = pieces(columns.header_values.getvalue(), columns.header_nulls.getvalue(), data)
    ends = (0, *struct.unpack(f"<{count}i", columns.header_ends.getvalue()))
    found = []
    for number in range(count):
        span = range(ends[number], ends[number + 1])
        headers = tuple(((names[each] or b"").decode(), header_values[each]) for each in span)
        found.append(Record(offsets[number], times[number] // 1000, keys[number], values[number], headers))
    return found


@given(st.lists(records, max_size=40), st.integers(0, 1 << 40), st.booleans())
def test_columns_equal_the_result_of_read_records(written: list[Record], base_offset: int, stamped: bool) -> None:
    if not written:
        return
    batch = build_batch(written, base_offset=base_offset, log_append_time=stamped)
    columns = Columns(EVERYTHING, 0, INT64_MAX)
    add(columns, batch)
    assert rows(columns, batch) == read_records(batch, 0)


@given(st.lists(records, min_size=1, max_size=20), st.integers(0, 30), st.integers(0, 30))
def test_only_wanted_offsets_are_decoded(written: list[Record], first: int, end: int) -> None:
    batch = build_batch(written)
    columns = Columns(EVERYTHING, first, end)
    add(columns, batch)
    assert rows(columns, batch) == [each for each in read_records(batch, 0) if first <= each.offset < end]


@given(st.lists(records, min_size=1, max_size=20), st.integers(-(1 << 52), 1 << 52))
def test_only_wanted_times_are_decoded(written: list[Record], middle: int) -> None:
    batch = build_batch(written)
    for first, last in ((INT64_MIN, middle), (middle, INT64_MAX)):
        columns = Columns(EVERYTHING, 0, INT64_MAX, first, last)
        add(columns, batch)
        assert rows(columns, batch) == [each for each in read_records(batch, 0) if first <= each.timestamp_ms <= last]


@given(st.lists(records, min_size=1, max_size=8), st.data())
def test_damage_is_refused_as_by_read_records(written: list[Record], data: st.DataObject) -> None:
    batch = bytearray(build_batch(written))
    for _ in range(data.draw(st.integers(1, 3))):
        batch[data.draw(st.integers(HEADER_BYTES, len(batch) - 1))] = data.draw(st.integers(0, 255))
    damaged = bytes(batch)
    columns = Columns(EVERYTHING, 0, INT64_MAX)
    try:
        expected = read_records(damaged, 0)
    except LonghallError as refusal:
        if "UTF-8" in str(refusal):
            return  # The column decoder does not decode names of headers.
        with pytest.raises(LonghallError) as failure:
            add(columns, damaged)
        assert failure.value.code is Code.CORRUPT_MESSAGE
        return
    add(columns, damaged)
    assert [each.offset for each in rows(columns, damaged)] == [each.offset for each in expected]
    assert [each.value for each in rows(columns, damaged)] == [each.value for each in expected]


def test_unwanted_columns_are_empty() -> None:
    columns = Columns(OFFSET, 0, INT64_MAX)
    add(columns, build_batch([Record(-1, 5, b"key", b"value", (("a", b"b"),))]))
    assert columns.rows == 1
    assert [len(each.getvalue()) for each in (columns.keys, columns.values, columns.times, columns.header_names)] == [
        0
    ] * 4


def test_positions_continue_across_batches() -> None:
    first, second = (build_batch([Record(-1, 0, None, word)], base_offset=at) for at, word in ((0, b"a"), (1, b"bc")))
    columns = Columns(EVERYTHING, 0, INT64_MAX)
    add(columns, first)
    add(columns, second, shift=len(first))
    assert [each.value for each in rows(columns, first + second)] == [b"a", b"bc"]


def test_times_are_clamped_to_64_bits_of_microseconds() -> None:
    columns = Columns(TIMESTAMP, 0, INT64_MAX)
    add(columns, build_batch([Record(-1, INT64_MAX, b"", b"")]))
    add(columns, build_batch([Record(-1, -(1 << 62), b"", b"")], base_offset=1))
    assert struct.unpack("<2q", columns.times.getvalue()) == (TIMES_MAX * 1000, -TIMES_MAX * 1000)

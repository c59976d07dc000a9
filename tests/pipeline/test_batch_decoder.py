"""Fetched bytes into record batches: every compression, no markers, nothing that was aborted, about a megabyte each."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from longhall.errors import LonghallError
from longhall.pipeline.arrow_table import TYPES, Shape
from longhall.pipeline.batch_decoder import CHUNK_BYTES, PartitionDecoder
from longhall.records.batch import Record, build_batch
from longhall.records.control import build_marker

ALL = tuple(TYPES)


def opened(
    fetched: bytes,
    columns: tuple[str, ...] = ALL,
    start: int = 0,
    end: int = 1 << 40,
    aborted: list[tuple[int, int]] | None = None,
) -> list[Any]:
    return list(PartitionDecoder(Shape(columns, "t", 7), start, end).open(fetched, aborted or []))


def values(batches: list[Any]) -> list[bytes | None]:
    return [value for batch in batches for value in batch.column("value").to_pylist()]


def batch_of(*words: bytes, at: int = 0, **kind: Any) -> bytes:
    return build_batch([Record(-1, 1000 + number, b"k", word) for number, word in enumerate(words)], at, **kind)


def test_rows_have_every_column() -> None:
    record = Record(3, 1_700_000_000_123, b"key", b"value", (("a", b"1"), ("b", None)))
    (batch,) = opened(build_batch([record, Record(4, 5, None, None)], base_offset=3))
    first, second = batch.to_pylist()
    assert first["timestamp"].timestamp() == 1_700_000_000.123
    del first["timestamp"]
    assert first == {
        "key": b"key",
        "value": b"value",
        "topic": "t",
        "partition": 7,
        "offset": 3,
        "timestampType": 0,
        "headers": [{"key": "a", "value": b"1"}, {"key": "b", "value": None}],
    }
    assert (second["key"], second["value"], second["headers"]) == (None, None, None)
    batch.validate(full=True)


@given(st.lists(st.tuples(st.integers(0, 4), st.booleans(), st.integers(1, 5)), min_size=1, max_size=8))
def test_compressions_and_kinds_of_time_mix(kinds: list[tuple[int, bool, int]]) -> None:
    at, fetched, expected = 0, b"", []
    for codec, stamped, count in kinds:
        words = [b"%d-%d" % (at, number) for number in range(count)]
        fetched += batch_of(*words, at=at, compression=codec, log_append_time=stamped)
        expected += [(word, offset, int(stamped)) for offset, word in enumerate(words, at)]
        at += count
    batches = opened(fetched, ("value", "offset", "timestampType"))
    assert [tuple(row.values()) for batch in batches for row in batch.to_pylist()] == expected


def test_batches_are_about_a_megabyte() -> None:
    fetched = b"".join(batch_of(*[b"x" * 1000] * 100, at=number * 100) for number in range(30))
    sizes = [batch.nbytes for batch in opened(fetched, ("value",))]
    assert len(sizes) == 3
    assert max(sizes) < 1.3 * CHUNK_BYTES


def test_a_partial_batch_is_left_for_the_next_response() -> None:
    first, second = batch_of(b"a"), batch_of(b"b", at=1)
    opening = PartitionDecoder(Shape(("value",), "t", 0), 0, 10)
    assert values(list(opening.open(first + second[:-1], []))) == [b"a"]
    assert opening.next_offset == 1
    assert values(list(opening.open(second, []))) == [b"b"]


def test_rows_outside_the_range_are_left_out() -> None:
    fetched = batch_of(b"a", b"b", b"c") + batch_of(b"d", b"e", at=3) + batch_of(b"f", at=5)
    assert values(opened(fetched, start=1, end=4)) == [b"b", b"c", b"d"]


def test_aborted_messages_and_markers_are_skipped() -> None:
    def of(producer: int, word: bytes, at: int) -> bytes:
        return batch_of(word, at=at, producer_id=producer, producer_epoch=0, base_sequence=0, transactional=True)

    fetched = of(1, b"aborted", 0) + of(2, b"kept", 1) + of(1, b"aborted too", 2)
    fetched += build_marker(False, 1, 0, 0, 5, base_offset=3) + build_marker(True, 2, 0, 0, 5, base_offset=4)
    fetched += of(1, b"later", 5) + build_marker(True, 1, 0, 0, 5, base_offset=6) + batch_of(b"plain", at=7)
    assert values(opened(fetched, aborted=[(1, 0)])) == [b"kept", b"later", b"plain"]
    # What is aborted is remembered from one answer to the next.
    opening = PartitionDecoder(Shape(("value",), "t", 0), 0, 10)
    seen = values(list(opening.open(of(1, b"aborted", 0), [(1, 0)])))
    seen += values(list(opening.open(of(1, b"aborted too", 1) + build_marker(False, 1, 0, 0, 5, base_offset=2), [])))
    assert seen == []
    assert opening.next_offset == 3


def test_a_header_name_that_is_not_utf8_is_replaced_as_in_java() -> None:
    fetched = build_batch([Record(-1, 0, b"", b"", (("ab", b"1"),))]).replace(b"ab", b"\xff\xfe")
    from longhall.records.crc import crc_of

    fetched = fetched[:17] + crc_of(fetched, 21, len(fetched)).to_bytes(4, "big") + fetched[21:]
    (batch,) = opened(fetched)
    assert batch.column("headers").to_pylist() == [[{"key": "\ufffd\ufffd", "value": b"1"}]]


def test_a_wrong_checksum_is_an_error() -> None:
    with pytest.raises(LonghallError, match="checksum"):
        opened(batch_of(b"value").replace(b"value", b"walue"))


def test_rows_without_columns_are_counted() -> None:
    (batch,) = opened(batch_of(b"a", b"b"), ())
    assert batch.num_rows == 2

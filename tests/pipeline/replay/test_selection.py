"""Which messages a replay takes."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from longhall.pipeline.archive.manifest import Piece
from longhall.pipeline.archive.parquet import SCHEMA
from longhall.pipeline.replay.selection import Selection


def batch(*rows: tuple[int, bytes | None, list[tuple[str, bytes | None]] | None]) -> Any:
    return pa.RecordBatch.from_pylist(
        [
            {
                "offset": number,
                "timestamp": time_ms * 1000,
                "timestampType": 0,
                "key": key,
                "value": b"",
                "headers": None if headers is None else [{"key": name, "value": value} for name, value in headers],
            }
            for number, (time_ms, key, headers) in enumerate(rows)
        ],
        SCHEMA,
    )


ROWS = batch(
    (10, b"a", None),
    (20, None, [("kind", b"x"), ("kind", b"y")]),
    (15, b"b", [("kind", None)]),
    (30, b"a", [("kind", b"x"), ("trace", b"1")]),
)


def offsets(selection: Selection) -> list[int]:
    found: list[int] = selection.select(ROWS).column("offset").to_pylist()
    return found


def test_everything_by_default() -> None:
    assert offsets(Selection()) == [0, 1, 2, 3]


def test_by_time_with_the_end_excluded() -> None:
    assert offsets(Selection(since_ms=15, until_ms=30)) == [1, 2]
    assert offsets(Selection(since_ms=31)) == []


def test_by_one_of_the_keys() -> None:
    assert offsets(Selection(keys=(b"a",))) == [0, 3]
    assert offsets(Selection(keys=(b"a", b"b"))) == [0, 2, 3]


def test_by_all_of_the_headers() -> None:
    assert offsets(Selection(headers=(("kind", None),))) == [1, 2, 3]
    assert offsets(Selection(headers=(("kind", b"y"),))) == [1]
    assert offsets(Selection(headers=(("kind", b"x"), ("trace", b"1")))) == [3]


def test_files_without_selected_messages_are_not_opened() -> None:
    piece = Piece(base=0, end=9, path="p", first_ms=100, last_ms=200)
    assert Selection(since_ms=200).may_be_in(piece)
    assert not Selection(since_ms=201).may_be_in(piece)
    assert Selection(until_ms=101).may_be_in(piece)
    assert not Selection(until_ms=100).may_be_in(piece)
    assert not Selection().may_be_in(Piece(base=0, end=9))

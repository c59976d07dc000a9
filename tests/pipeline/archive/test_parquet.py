"""Files of an archive: the same messages are the same bytes, whatever pieces they came in, and all come back."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from longhall.pipeline.archive import parquet
from longhall.pipeline.archive.manifest import DAY_MS, Piece, day_of, first_break
from longhall.pipeline.archive.parquet import SCHEMA, Writer, read_piece, recognised
from longhall.pipeline.archive.storage import Storage

NOON_MS = 20_000 * DAY_MS + DAY_MS // 2

rows_of = st.lists(
    st.tuples(
        st.integers(1, 3),  # How far behind the row before.
        st.sampled_from([NOON_MS, NOON_MS + 7, NOON_MS + DAY_MS, -1]),
        st.none() | st.binary(max_size=5),
        st.none() | st.binary(max_size=200),
        st.none() | st.lists(st.tuples(st.text(max_size=3), st.none() | st.binary(max_size=3)), min_size=1, max_size=2),
    ),
    max_size=40,
)


def table(rows: list[Any], base: int = 0) -> list[dict[str, object]]:
    found = []
    offset = base - 1
    for step, time_ms, key, value, headers in rows:
        offset += step
        named = None if headers is None else [{"key": name, "value": content} for name, content in headers]
        found.append(
            {
                "offset": offset,
                "timestamp": time_ms * 1000,
                "timestampType": 0,
                "key": key,
                "value": value,
                "headers": named,
            }
        )
    return found


def batch_of(rows: list[dict[str, object]]) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist(rows, SCHEMA)


def write(place: Path, rows: list[dict[str, object]], end: int, cuts: list[int]) -> list[Piece]:
    writer = Writer(Storage(str(place)), "t", "aa", 0, 0)
    at = 0
    for cut in [*sorted(min(cut, len(rows)) for cut in cuts), len(rows)]:
        if cut > at:
            writer.add(batch_of(rows[at:cut]))
            at = cut
    writer.close(end)
    return writer.pieces


@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(rows_of, st.lists(st.integers(0, 40), max_size=4), st.integers(0, 3))
def test_the_same_messages_are_the_same_files(
    tmp_path_factory: pytest.TempPathFactory, rows: list[Any], cuts: list[int], more: int
) -> None:
    wanted = table(rows)
    end = (int(str(wanted[-1]["offset"])) if wanted else 0) + 1 + more
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(parquet, "GROUP_BYTES", 300)
        patch.setattr(parquet, "FILE_BYTES_MAX", 900)
        patch.setattr(parquet, "DAYS_CUT_MAX", 3)
        one, two = tmp_path_factory.mktemp("one"), tmp_path_factory.mktemp("two")
        pieces = write(one, wanted, end, [])
        again = write(two, wanted, end, cuts)
    assert pieces == again
    assert first_break(pieces) is None
    assert (pieces[0].base, pieces[-1].end) == (0, end)
    storage = Storage(str(one))
    for piece in pieces:
        if piece.path:
            assert (one / piece.path).read_bytes() == (two / piece.path).read_bytes()
            assert recognised(storage, piece.path, "aa") == piece
    back = [row for piece in pieces for batch in read_piece(storage, piece) for row in batch.to_pylist()]
    assert back == batch_of(wanted).to_pylist()
    assert sum(piece.rows for piece in pieces) == len(wanted)


def test_a_file_is_of_the_day_of_its_messages(tmp_path: Path) -> None:
    times = [NOON_MS, NOON_MS + 1, NOON_MS + DAY_MS]
    pieces = write(tmp_path, table([(1, time, None, b"v", None) for time in times]), 9, [])
    assert [(day_of(piece.path), piece.base, piece.end) for piece in pieces] == [
        ("2024-10-04", 0, 2),
        ("2024-10-05", 2, 9),
    ]
    assert (pieces[0].first_ms, pieces[0].last_ms) == (NOON_MS, NOON_MS + 1)


def test_days_that_change_all_the_time_do_not_make_a_file_each(tmp_path: Path) -> None:
    rows = table([(1, NOON_MS + (number % 2) * DAY_MS, None, b"v", None) for number in range(500)])
    assert len(write(tmp_path, rows, 500, [])) <= parquet.DAYS_CUT_MAX + 1


def test_a_file_that_was_written_before_a_crash_stays_and_a_damaged_one_does_not(tmp_path: Path) -> None:
    rows = table([(1, NOON_MS, b"k", b"v", None)] * 3)
    (piece,) = write(tmp_path, rows, 3, [])
    whole = (tmp_path / piece.path).read_bytes()
    # A compacted topic has fewer messages by now: what stands there is as right, and is described as it is.
    assert write(tmp_path, rows[1:], 3, []) == [piece]
    assert (tmp_path / piece.path).read_bytes() == whole
    (tmp_path / piece.path).write_bytes(whole[:-9])
    assert recognised(Storage(str(tmp_path)), piece.path, "aa") is None
    assert write(tmp_path, rows, 3, []) == [piece]
    assert (tmp_path / piece.path).read_bytes() == whole


def test_a_range_without_messages_has_no_file(tmp_path: Path) -> None:
    assert write(tmp_path, [], 7, []) == [Piece(base=0, end=7)]
    assert list(tmp_path.iterdir()) == []

"""Manifests have no holes, whatever is added and merged, and merging does not go on for ever."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from longhall.pipeline.archive.manifest import (
    ArchiveManifest,
    Piece,
    day_of,
    decode,
    encode,
    extended,
    first_break,
    merged,
    piece_path,
    to_merge,
    without_retired,
)
from longhall.pipeline.refusals import PipelineError

EMPTY = ArchiveManifest(topic="orders", topic_id="aa", version=1, writer="w")
LIMIT = 1000

kinds = st.lists(
    st.tuples(st.integers(1, 50), st.sampled_from([0, 1, 1, 1, 7, 300, 990]), st.integers(0, 2), st.booleans()),
    max_size=60,
)


def pieces_of(kinds: list[tuple[int, int, int, bool]], base: int = 0) -> list[Piece]:
    """Some with messages of a few days, some without, a few lost."""
    found = []
    for rows, content, day, odd in kinds:
        end = base + rows
        path = piece_path("orders", 0, f"2026-11-{day + 10}", base, end) if content else ""
        size = content // 3 + 1 if content else 0
        lost = odd and not content
        found.append(Piece(base=base, end=end, path=path, size_bytes=size, content_bytes=content, lost=lost))
        base = end
    return found


@given(kinds, st.integers(0, 10**6))
def test_a_manifest_comes_back_as_it_was(kinds: list[tuple[int, int, int, bool]], base: int) -> None:
    manifest = extended(EMPTY, {0: pieces_of(kinds, base), 3: pieces_of(kinds[:2])})
    assert decode(encode(manifest), "m") == manifest


@given(kinds)
def test_what_is_merged_fills_the_same_range_within_one_day_and_one_file(
    kinds: list[tuple[int, int, int, bool]],
) -> None:
    pieces = pieces_of(kinds)
    for run in to_merge(pieces, LIMIT):
        at = pieces.index(run[0])
        assert pieces[at : at + len(run)] == run, "neighbours"
        assert sum(piece.content_bytes for piece in run) <= LIMIT
        assert len({day_of(piece.path) for piece in run if piece.path}) <= 1
        assert not any(piece.lost for piece in run)


@given(kinds)
def test_merging_ends_and_keeps_every_offset(kinds: list[tuple[int, int, int, bool]]) -> None:
    manifest = extended(EMPTY, {0: pieces_of(kinds)})
    ends = manifest.ends()
    steps = 0
    while runs := to_merge(manifest.pieces(0), LIMIT):
        steps += 1
        assert steps < 20
        for run in runs:
            content = sum(piece.content_bytes for piece in run)
            day = next((day_of(piece.path) for piece in run if piece.path), "")
            path = piece_path("orders", 0, day, run[0].base, run[-1].end) if content else ""
            fresh = Piece(base=run[0].base, end=run[-1].end, path=path, content_bytes=content)
            manifest = merged(manifest, 0, run, [fresh], 5)
        assert first_break(manifest.pieces(0)) is None
    assert manifest.ends() == ends
    assert {each.path for each in manifest.retired} <= manifest.paths(), "readers of older manifests still find them"
    assert without_retired(manifest, 6).retired == []


def test_a_message_is_written_again_a_few_times_however_many_files_come() -> None:
    manifest = EMPTY
    written = 0
    for number in range(2000):
        path = piece_path("orders", 0, "2026-11-15", number, number + 1)
        manifest = extended(manifest, {0: [Piece(base=number, end=number + 1, path=path, content_bytes=1)]})
        for run in to_merge(manifest.pieces(0), 10**6):
            written += sum(piece.content_bytes for piece in run)
            whole = piece_path("orders", 0, "2026-11-15", run[0].base, run[-1].end)
            content = sum(piece.content_bytes for piece in run)
            fresh = Piece(base=run[0].base, end=run[-1].end, path=whole, content_bytes=content)
            manifest = without_retired(merged(manifest, 0, run, [fresh], 1), 2)
    assert len(manifest.pieces(0)) < 40
    assert written < 2000 * 12


def test_pieces_that_do_not_continue_are_a_bug_and_a_manifest_with_a_hole_is_refused() -> None:
    manifest = extended(EMPTY, {0: [Piece(base=5, end=9)]})
    with pytest.raises(AssertionError):
        extended(manifest, {0: [Piece(base=10, end=12)]})
    broken = encode(manifest).replace(b'"base":5', b'"base":9')
    with pytest.raises(PipelineError, match="does not hang together: partition 0 at offset 9"):
        decode(broken, "m")
    with pytest.raises(PipelineError, match="is damaged"):
        decode(b"{", "m")
    with pytest.raises(PipelineError, match="format 9; a newer Longhall wrote it"):
        decode(encode(manifest).replace(b'"format":1', b'"format":9'), "m")

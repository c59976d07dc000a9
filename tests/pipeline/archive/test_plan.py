"""Rounds of an archiver: from the manifest's ends on, all partitions in turn, nothing passed over in silence."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from longhall.pipeline.archive.manifest import ArchiveManifest, Piece, extended
from longhall.pipeline.archive.plan import Round, next_round, pieces
from longhall.pipeline.plan import Range
from longhall.pipeline.refusals import PipelineError

EMPTY = ArchiveManifest(topic="t", topic_id="aa", version=1, writer="w")


def plan(
    manifest: ArchiveManifest, earliest: dict[int, int], latest: dict[int, int], row_bytes: float = 1.0, **words: bool
) -> Round:
    sizes = {("t", part): row_bytes for part in latest}
    return next_round(
        {"t": manifest},
        {"t": earliest},
        {"t": latest},
        sizes,
        content_bytes_max=100,
        ranges_max=8,
        allow_loss=words.get("allow_loss", False),
    )


@given(st.integers(0, 1000), st.integers(1, 5000), st.integers(1, 700))
def test_pieces_fill_the_range_and_are_even(start: int, size: int, rows_max: int) -> None:
    cut = pieces(Range("t", 0, start, start + size), rows_max)
    assert cut[0].start == start
    assert cut[-1].end == start + size
    assert all(left.end == right.start for left, right in itertools.pairwise(cut))
    sizes = [piece.size for piece in cut]
    assert max(sizes) <= rows_max
    assert max(sizes) - min(sizes) <= 1


def test_ranges_start_at_the_end_of_the_manifest_or_the_start_of_the_log() -> None:
    manifest = extended(EMPTY, {0: [Piece(base=0, end=50)]})
    planned = plan(manifest, {0: 10, 1: 7}, {0: 60, 1: 20})
    assert planned.ranges == [Range("t", 0, 50, 60), Range("t", 1, 7, 20)]
    assert not planned.lost


def test_a_round_advances_every_partition() -> None:
    planned = plan(EMPTY, {0: 0, 1: 0}, {0: 100_000, 1: 100_000})
    assert len(planned.ranges) == 8
    assert [each.partition for each in planned.ranges] == [0, 1] * 4
    assert planned.ranges[2].start == planned.ranges[0].end


def test_no_new_messages_make_no_round() -> None:
    assert plan(extended(EMPTY, {0: [Piece(base=0, end=50)]}), {0: 0}, {0: 50}) == Round({}, [])


def test_deleted_messages_are_an_error_or_marked_lost() -> None:
    manifest = extended(EMPTY, {0: [Piece(base=0, end=50)]})
    with pytest.raises(PipelineError, match="t-0: offsets 50 to 59 were deleted before they were archived"):
        plan(manifest, {0: 60}, {0: 80})
    planned = plan(manifest, {0: 60}, {0: 80}, allow_loss=True)
    assert planned.lost == {("t", 0): Piece(base=50, end=60, lost=True)}
    assert planned.ranges == [Range("t", 0, 60, 80)]


def test_an_archive_ahead_of_the_hall_is_refused() -> None:
    manifest = extended(EMPTY, {0: [Piece(base=0, end=50)]})
    with pytest.raises(PipelineError, match="t-0 ends at offset 20, and its archive at 50"):
        plan(manifest, {0: 0}, {0: 20})

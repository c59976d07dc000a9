"""Recently written ranges, and those that are no longer recent."""

from __future__ import annotations

from itertools import pairwise

from longhall.log.recent_writes import GROWING_MAX, STEP_BYTES, Range, RecentWrites

MIB = 1024 * 1024


def write(recent: RecentWrites, path: str, from_bytes: int, size_bytes: int, piece_bytes: int = MIB) -> list[Range]:
    """Write a range in pieces; returns the ranges that were dropped meanwhile."""
    gone = []
    for position in range(from_bytes, from_bytes + size_bytes, piece_bytes):
        stretch = recent.wrote(path, position, piece_bytes)
        if stretch is not None:
            gone.append(stretch)
    return gone


def test_nothing_is_dropped_below_the_bound() -> None:
    assert write(RecentWrites(16 * MIB), "a", 0, 16 * MIB) == []


def test_beyond_the_bound_the_oldest_is_dropped_first() -> None:
    gone = write(RecentWrites(16 * MIB), "a", 0, 32 * MIB, STEP_BYTES // 4)
    assert gone == [("a", first, first + STEP_BYTES) for first in range(0, 16 * MIB, STEP_BYTES)]


def test_no_page_is_left_between_two_ranges() -> None:
    gone = write(RecentWrites(8 * MIB), "a", 77, 40 * MIB, 333_333)
    assert len(gone) > 4
    for (_, _, behind), (_, first, _) in pairwise(gone):
        assert first <= behind < first + 4096


def test_files_written_alternately_are_dropped_alternately() -> None:
    recent = RecentWrites(8 * MIB)
    gone: list[Range] = []
    for position in range(0, 16 * MIB, MIB):
        for path in ("a", "b"):
            stretch = recent.wrote(path, position, MIB)
            gone += [stretch] if stretch is not None else []
    assert [path for path, _, _ in gone] == ["a", "b"] * 12


def test_a_write_elsewhere_begins_a_new_range() -> None:
    recent = RecentWrites(1)
    assert recent.wrote("a", 0, STEP_BYTES - 1) is None
    assert recent.wrote("a", 10 * MIB, STEP_BYTES) == ("a", 10 * MIB, 10 * MIB + STEP_BYTES)


def test_the_number_of_tracked_files_is_bounded() -> None:
    recent = RecentWrites(1)
    for number in range(2 * GROWING_MAX):
        assert recent.wrote(f"{number}", 0, 1) is None
    assert recent.wrote("0", 1, STEP_BYTES - 1) is None  # Its first byte was forgotten, so this is less than a step.


def test_without_a_bound_nothing_is_dropped() -> None:
    assert write(RecentWrites(0), "a", 0, 64 * MIB) == []

"""Positions of entries: the returned position is never after the entry, also after truncation and release."""

from __future__ import annotations

from longhall.log.positions import INTERVAL_BYTES, Positions


def test_the_last_position_not_after_the_entry_is_returned() -> None:
    positions = Positions()
    assert positions.place_for(1) is None
    positions.note(0, 64)
    positions.note(5, 70)  # Too close to the previous one: not noted.
    positions.note(10, 64 + INTERVAL_BYTES)
    positions.note(30, 64 + 3 * INTERVAL_BYTES)
    assert positions.place_for(1) == (0, 64)
    assert positions.place_for(10) == (0, 64)
    assert positions.place_for(11) == (10, 64 + INTERVAL_BYTES)
    assert positions.place_for(1_000) == (30, 64 + 3 * INTERVAL_BYTES)
    assert positions.first == 0


def test_after_a_truncation_new_entries_are_found_and_old_ones_before_it() -> None:
    positions = Positions()
    for index in range(0, 50, 10):
        positions.note(index, index * INTERVAL_BYTES)
    positions.cut_behind(25, 1_000 * INTERVAL_BYTES)
    assert positions.place_for(25) == (20, 20 * INTERVAL_BYTES)
    assert positions.place_for(26) == (25, 1_000 * INTERVAL_BYTES)
    assert positions.place_for(45) == (25, 1_000 * INTERVAL_BYTES)


def test_released_entries_are_not_found() -> None:
    positions = Positions()
    for index in range(0, 50, 10):
        positions.note(index, index * INTERVAL_BYTES)
    positions.release_before(15 * INTERVAL_BYTES)
    assert not positions.has(20)
    assert positions.has(21)
    assert positions.first == 20
    positions.release_before(1 << 60)
    assert positions.first == -1
    positions.note(99, 1 << 61)
    assert positions.place_for(100) == (99, 1 << 61)

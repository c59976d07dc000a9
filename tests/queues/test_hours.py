"""Delivery hours, minute by minute."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from longhall.queues.hours import MINUTE_MS, is_open, next_change_ms, opens_ms, read_hours, write_hours
from longhall.queues.settings import DeliveryHours, DeliveryWindow

DAY_MS = 1440 * MINUTE_MS
MIDNIGHT_MS = 20_000 * DAY_MS


def at(hour: int, minute: int = 0) -> int:
    return MIDNIGHT_MS + (hour * 60 + minute) * MINUTE_MS


def test_hours_can_span_midnight() -> None:
    night = DeliveryHours(from_minute=22 * 60, to_minute=6 * 60)
    assert is_open(night, at(23))
    assert is_open(night, at(5, 59))
    assert not is_open(night, at(6))
    assert next_change_ms(night, at(6)) == at(22)
    assert next_change_ms(night, at(23)) == at(30)
    assert opens_ms(night, at(12)) == at(22)
    assert opens_ms(night, at(23)) == at(23)


def test_no_hours_mean_always_open() -> None:
    for hours in (None, DeliveryHours(from_minute=0, to_minute=1440), DeliveryHours(from_minute=90, to_minute=90)):
        assert is_open(hours, at(3))
        assert next_change_ms(hours, at(3)) is None
        assert opens_ms(hours, at(3)) == at(3)


@given(st.integers(0, 1439), st.integers(0, 1440), st.integers(MIDNIGHT_MS, MIDNIGHT_MS + 3 * DAY_MS))
def test_the_state_holds_until_the_next_change(from_minute: int, to_minute: int, now_ms: int) -> None:
    hours = DeliveryHours(from_minute=from_minute, to_minute=to_minute)
    change_ms = next_change_ms(hours, now_ms)
    if change_ms is None:
        assert is_open(hours, now_ms)
        return
    assert now_ms < change_ms <= now_ms + DAY_MS
    assert is_open(hours, change_ms - 1) == is_open(hours, now_ms)
    assert is_open(hours, change_ms) != is_open(hours, now_ms)
    middle_ms = (now_ms + change_ms) // 2
    assert is_open(hours, middle_ms) == is_open(hours, now_ms)


def test_a_queue_delivers_in_each_of_its_windows() -> None:
    hours = read_hours("22:00-06:00,12:00-13:00")
    assert [hour for hour in range(24) if is_open(hours, at(hour))] == [0, 1, 2, 3, 4, 5, 12, 22, 23]
    assert next_change_ms(hours, at(6)) == at(12)
    assert next_change_ms(hours, at(12)) == at(13)
    adjacent = read_hours("08:00-12:00,12:00-16:00")
    assert next_change_ms(adjacent, at(9)) == at(16)
    assert next_change_ms(read_hours("00:00-12:00,12:00-24:00"), at(9)) is None


def summer_time(now_ms: int) -> int:
    """Clocks go forward from 02:00 to 03:00 on the first day, and back from 03:00 to 02:00 on the third (local)."""
    return 120 if at(1) <= now_ms < at(49) else 60


def test_windows_follow_the_clock_on_the_wall() -> None:
    morning = read_hours("08:00-09:00 Europe/Berlin")
    assert opens_ms(morning, at(0), summer_time) == at(6)  # Summer time began at 01:00 UTC.
    assert opens_ms(morning, at(31), summer_time) == at(54 + 1)  # It ended at 49:00: the next is in winter time.
    skipped = read_hours("02:00-03:00 Europe/Berlin")
    assert opens_ms(skipped, at(0), summer_time) == at(24)  # That hour does not exist on the first day.
    into = read_hours("02:30-04:00 Europe/Berlin")
    assert opens_ms(into, at(0), summer_time) == at(1)  # The clock jumps into the window.
    assert next_change_ms(into, at(1), summer_time) == at(2)
    twice = read_hours("02:00-03:00 Europe/Berlin")
    assert opens_ms(twice, at(47), summer_time) == at(48)
    assert next_change_ms(twice, at(48), summer_time) == at(50)  # The hour comes twice.


WINDOWS = st.lists(st.tuples(st.integers(0, 1439), st.integers(0, 1440)), min_size=1, max_size=4)


@given(WINDOWS, st.integers(MIDNIGHT_MS - DAY_MS, MIDNIGHT_MS + 3 * DAY_MS))
def test_no_change_is_missed_in_any_windows_and_zone(windows: list[tuple[int, int]], now_ms: int) -> None:
    one, *others = [DeliveryWindow(from_minute=begin, to_minute=end) for begin, end in windows]
    hours = DeliveryHours(from_minute=one.from_minute, to_minute=one.to_minute, also=tuple(others))
    change_ms = next_change_ms(hours, now_ms, summer_time)
    opened = is_open(hours, now_ms, summer_time)
    until_ms = now_ms + DAY_MS if change_ms is None else change_ms
    for minute in range(now_ms // MINUTE_MS + 1, until_ms // MINUTE_MS, 7):
        assert is_open(hours, minute * MINUTE_MS, summer_time) == opened
    if change_ms is not None:
        assert is_open(hours, change_ms - 1, summer_time) == opened
        assert is_open(hours, change_ms, summer_time) != opened


def test_hours_have_a_text() -> None:
    for text in ("22:00-06:00", "08:00-12:00,13:00-24:00", "00:30-01:00 Asia/Tokyo"):
        assert write_hours(read_hours(text)) == text
    for text in (
        "",
        "8-9",
        "08:00",
        "08:00-25:00",
        "08:00-09:60",
        "08:00-09:00 a b",
        "08:00-09:00," * 30 + "08:00-09:00",
    ):
        with pytest.raises(ValueError, match=r"write it|windows"):
            read_hours(text)

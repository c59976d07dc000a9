"""Delivery hours, minute by minute."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from longhall.queues.hours import MINUTE_MS, is_open, next_change_ms, opens_ms
from longhall.queues.settings import DeliveryHours

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

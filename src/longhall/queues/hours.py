"""Delivery hours: the minutes of the day (UTC) in which a queue gives out. Sending goes on at all hours.

`from_minute` belongs to the hours, `to_minute` does not. From greater than to runs over midnight; from equal to to, or
from 0 to 1440, is the whole day. Pure arithmetic on hall time.
"""

from __future__ import annotations

from typing import Final

from longhall.queues.settings import DeliveryHours

MINUTE_MS: Final = 60_000
DAY_MINUTES: Final = 1440


def is_open(hours: DeliveryHours | None, now_ms: int) -> bool:
    """Whether the queue gives out now."""
    if hours is None or hours.from_minute == hours.to_minute % DAY_MINUTES:
        return True
    minute = now_ms // MINUTE_MS % DAY_MINUTES
    if hours.from_minute < hours.to_minute:
        return hours.from_minute <= minute < hours.to_minute
    return minute >= hours.from_minute or minute < hours.to_minute


def next_change_ms(hours: DeliveryHours | None, now_ms: int) -> int | None:
    """When it next opens, if it is closed, or closes, if it is open; None if it is always open."""
    if hours is None or hours.from_minute == hours.to_minute % DAY_MINUTES:
        return None
    edge = hours.to_minute if is_open(hours, now_ms) else hours.from_minute
    minute = now_ms // MINUTE_MS
    ahead = (edge - minute) % DAY_MINUTES or DAY_MINUTES
    return (minute + ahead) * MINUTE_MS


def opens_ms(hours: DeliveryHours | None, now_ms: int) -> int:
    """When it gives out: now, or when it next opens."""
    if is_open(hours, now_ms):
        return now_ms
    opens = next_change_ms(hours, now_ms)
    assert opens is not None
    return opens

"""Delivery hours: the minutes of the day (UTC) in which a queue delivers. Sends are accepted at all hours.

`from_minute` is inclusive, `to_minute` exclusive. A `from_minute` above `to_minute` spans midnight; equal values, or 0
to 1440, are the whole day. Pure arithmetic on hall time.
"""

from __future__ import annotations

from typing import Final

from longhall.queues.settings import DeliveryHours

MINUTE_MS: Final = 60_000
DAY_MINUTES: Final = 1440


def is_open(hours: DeliveryHours | None, now_ms: int) -> bool:
    """True if the queue delivers now."""
    if hours is None or hours.from_minute == hours.to_minute % DAY_MINUTES:
        return True
    minute = now_ms // MINUTE_MS % DAY_MINUTES
    if hours.from_minute < hours.to_minute:
        return hours.from_minute <= minute < hours.to_minute
    return minute >= hours.from_minute or minute < hours.to_minute


def next_change_ms(hours: DeliveryHours | None, now_ms: int) -> int | None:
    """When the hours next open or close; None if they never change."""
    if hours is None or hours.from_minute == hours.to_minute % DAY_MINUTES:
        return None
    edge = hours.to_minute if is_open(hours, now_ms) else hours.from_minute
    minute = now_ms // MINUTE_MS
    ahead = (edge - minute) % DAY_MINUTES or DAY_MINUTES
    return (minute + ahead) * MINUTE_MS


def opens_ms(hours: DeliveryHours | None, now_ms: int) -> int:
    """The next time at which the queue delivers: now, or when the hours open."""
    if is_open(hours, now_ms):
        return now_ms
    opens = next_change_ms(hours, now_ms)
    assert opens is not None
    return opens

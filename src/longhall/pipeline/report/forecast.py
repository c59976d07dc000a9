"""The forecast of a report: a rate, a trend if the period is long enough, and the space on disk.

A trend is a straight line through whole days, because the load varies within a day. With fewer than three days the
forecast is the average of the period.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

DAY_MS: Final = 86_400_000
TREND_DAYS_MIN: Final = 3
HORIZONS_DAYS: Final = (7, 30, 90)


class Forecast(NamedTuple):
    """Values by the day. `ahead` has (days, messages, bytes) that are expected by then."""

    messages_a_day: float
    bytes_a_day: float
    growth_a_day: float  # Of bytes, as a share of an average day; 0 without a trend.
    has_trend: bool
    peak_messages_a_second: float
    ahead: tuple[tuple[int, float, float], ...]
    disk_free_bytes: int
    full_in_days: float | None  # If everything is kept; None if it is unknown, or never.


def look_ahead(
    begin_ms: int, step_ms: int, messages: Sequence[float], sizes: Sequence[float], disk_free_bytes: int = 0
) -> Forecast:
    """The forecast from the counts of each step of a period."""
    days = max(len(messages), 1) * step_ms / DAY_MS
    message_rate, byte_rate = sum(messages) / days, sum(sizes) / days
    daily = _whole_days(begin_ms, step_ms, sizes)
    has_trend = len(daily) >= TREND_DAYS_MIN
    slope = _slope(daily) if has_trend else 0.0
    today = byte_rate + slope * (len(daily) / 2 if has_trend else 0)
    growth = slope / byte_rate if byte_rate else 0.0
    now = message_rate * (today / byte_rate) if byte_rate else 0.0
    ahead = tuple(
        (days_ahead, _sum(now, growth * message_rate, days_ahead), _sum(today, slope, days_ahead))
        for days_ahead in HORIZONS_DAYS
    )
    return Forecast(
        messages_a_day=message_rate,
        bytes_a_day=byte_rate,
        growth_a_day=growth,
        has_trend=has_trend,
        peak_messages_a_second=max(messages, default=0) / (step_ms / 1000),
        ahead=ahead,
        disk_free_bytes=disk_free_bytes,
        full_in_days=_full_in(today, slope, disk_free_bytes),
    )


def _whole_days(begin_ms: int, step_ms: int, values: Sequence[float]) -> list[float]:
    """Sums of 24 hours each, from the beginning on."""
    count = len(values) * step_ms // DAY_MS
    sums = [0.0] * count
    for at, value in enumerate(values):
        day = at * step_ms // DAY_MS
        if day < count:
            sums[day] += value
    return sums


def _slope(daily: Sequence[float]) -> float:
    middle_x, middle_y = (len(daily) - 1) / 2, sum(daily) / len(daily)
    over = sum((x - middle_x) * (y - middle_y) for x, y in enumerate(daily))
    return over / sum((x - middle_x) ** 2 for x in range(len(daily)))


def _sum(today: float, slope: float, days: int) -> float:
    """The expected sum of some days, each with `slope` more than the day before; never negative."""
    return sum(max(today + slope * day, 0.0) for day in range(1, days + 1))


def _full_in(today: float, slope: float, free_bytes: int) -> float | None:
    if free_bytes <= 0:
        return None
    used = 0.0
    for day in range(1, 3651):
        more = max(today + slope * day, 0.0)
        if used + more >= free_bytes:
            return day - 1 + (free_bytes - used) / more
        used += more
    return None

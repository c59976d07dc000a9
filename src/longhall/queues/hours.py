"""Delivery hours: the windows of the day in which a queue delivers. Sends are accepted at all hours.

A window is in minutes of the local day: `from_minute` is inclusive, `to_minute` exclusive. A `from_minute` above
`to_minute` spans midnight; equal values, or 0 to 1440, are the whole day. The queue delivers in any of its windows.

Windows are wall-clock times of a time zone. The caller gives the zone as a function from hall time to the offset of
local time in minutes, because the time zone database is outside of this room. On the day on which clocks change, a
window is as much shorter or longer as the clock on the wall makes it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from longhall.queues.settings import WINDOWS_MAX, DeliveryHours, DeliveryWindow

MINUTE_MS: Final = 60_000
DAY_MINUTES: Final = 1440
UTC: Final = "UTC"
_CHANGES_MAX: Final = 4 * (WINDOWS_MAX + 1) + 8  # Edges and clock changes of two days.

LocalOffset = Callable[[int], int]  # Hall time in milliseconds to the minutes that local time is ahead of UTC.


def utc_offset(now_ms: int) -> int:
    """The local offset of UTC."""
    return 0


def windows_of(hours: DeliveryHours) -> list[tuple[int, int]]:
    """All windows as first minute and end."""
    found = [(hours.from_minute, hours.to_minute)]
    found.extend([(window.from_minute, window.to_minute) for window in hours.also])
    return found


def is_open(hours: DeliveryHours | None, now_ms: int, local_offset: LocalOffset = utc_offset) -> bool:
    """True if the queue delivers now."""
    if hours is None:
        return True
    minute = (now_ms // MINUTE_MS + local_offset(now_ms)) % DAY_MINUTES
    for begin, end in windows_of(hours):
        if _is_within(begin, end, minute):
            return True
    return False


def _is_within(begin: int, end: int, minute: int) -> bool:
    if begin == end % DAY_MINUTES:
        return True
    if begin < end:
        return begin <= minute < end
    return minute >= begin or minute < end


def next_change_ms(hours: DeliveryHours | None, now_ms: int, local_offset: LocalOffset = utc_offset) -> int | None:
    """When the hours next open or close; None if that does not happen within the next two days."""
    if hours is None:
        return None
    edges = [edge % DAY_MINUTES for window in windows_of(hours) for edge in window]
    opened = is_open(hours, now_ms, local_offset)
    minute = now_ms // MINUTE_MS
    last = minute + 2 * DAY_MINUTES
    for _ in range(_CHANGES_MAX):
        minute = _next_edge(edges, minute, local_offset)
        if minute > last:
            return None
        if is_open(hours, minute * MINUTE_MS, local_offset) != opened:
            return minute * MINUTE_MS
    return None


def _next_edge(edges: list[int], minute: int, local_offset: LocalOffset) -> int:
    """The next minute at which a window begins or ends, or at which clocks change, if that is earlier."""
    offset = local_offset(minute * MINUTE_MS)
    local = minute + offset
    edge = minute + min([(edge - local) % DAY_MINUTES or DAY_MINUTES for edge in edges])
    if local_offset(edge * MINUTE_MS) == offset:
        return edge
    before = minute  # Clocks change in between: the first minute with another offset, by bisection.
    while edge - before > 1:
        middle = (before + edge) // 2
        if local_offset(middle * MINUTE_MS) == offset:
            before = middle
        else:
            edge = middle
    return edge


def opens_ms(hours: DeliveryHours | None, now_ms: int, local_offset: LocalOffset = utc_offset) -> int:
    """The next time at which the queue delivers: now, or when the hours open."""
    if is_open(hours, now_ms, local_offset):
        return now_ms
    opens = next_change_ms(hours, now_ms, local_offset)
    return now_ms + 2 * DAY_MINUTES * MINUTE_MS if opens is None else opens


# As text: 22:00-06:00,12:00-13:00 Europe/Berlin


def read_hours(text: str) -> DeliveryHours:
    """Hours from text: windows with commas between them, then the time zone if it is not UTC. Raises ValueError."""
    words = text.split()
    if not 1 <= len(words) <= 2:
        raise ValueError("write it like 22:00-06:00, or 22:00-06:00,12:00-13:00 Europe/Berlin")
    windows = [_read_window(window) for window in words[0].split(",")]
    if len(windows) > WINDOWS_MAX + 1:
        raise ValueError(f"hours have at most {WINDOWS_MAX + 1} windows")
    return DeliveryHours(
        from_minute=windows[0].from_minute,
        to_minute=windows[0].to_minute,
        also=tuple(windows[1:]),
        zone=words[1] if len(words) == 2 else UTC,
    )


def write_hours(hours: DeliveryHours) -> str:
    """The text of hours."""
    windows = ",".join([f"{_clock(begin)}-{_clock(end)}" for begin, end in windows_of(hours)])
    return windows if hours.zone == UTC else f"{windows} {hours.zone}"


def _read_window(text: str) -> DeliveryWindow:
    begin, dash, end = text.partition("-")
    if not dash:
        raise ValueError(f"{text!r} is not a window; write it like 22:00-06:00")
    return DeliveryWindow(from_minute=_read_minute(begin) % DAY_MINUTES, to_minute=_read_minute(end))


def _read_minute(text: str) -> int:
    hour, colon, minute = text.partition(":")
    if not (colon and _is_number(hour) and _is_number(minute) and int(minute) < 60):
        raise ValueError(f"{text!r} is not a time of day; write it like 22:00")
    found = int(hour) * 60 + int(minute)
    if found > DAY_MINUTES:
        raise ValueError(f"{text!r} is not a time of day; write it like 22:00, up to 24:00")
    return found


def _is_number(text: str) -> bool:
    return len(text) == 2 and text.isascii() and text.isdigit()


def _clock(minute: int) -> str:
    return f"{minute // 60:02d}:{minute % 60:02d}"

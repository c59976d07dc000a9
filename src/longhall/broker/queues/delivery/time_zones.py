"""Local time of delivery hours, by the time zone database of the host or of the package `tzdata`.

Only the leader of a queue decides by it, and its decision is in the log: two nodes with different versions of the
database never disagree about what was delivered.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from functools import lru_cache, partial
from typing import Final
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from longhall.errors import Code, LonghallError
from longhall.queues import hours as pure
from longhall.queues.hours import LocalOffset, utc_offset
from longhall.queues.settings import DeliveryHours

ZONES_MAX: Final = 1024  # Cached zones.
_MINUTE: Final = timedelta(minutes=1)


@lru_cache(ZONES_MAX)
def local_offset(zone: str) -> LocalOffset:
    """The offset of local time in a zone. Raises INVALID_CONFIGURATION if this host does not know the zone."""
    if zone == pure.UTC:
        return utc_offset
    try:
        found = ZoneInfo(zone)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise LonghallError(
            Code.INVALID_CONFIGURATION,
            f"This node does not know the time zone '{zone}': give a name of the IANA database like Europe/Berlin.",
        ) from None
    return partial(_offset, found)


def _offset(zone: ZoneInfo, now_ms: int) -> int:
    offset = datetime.fromtimestamp(now_ms / 1000, UTC).astimezone(zone).utcoffset()
    return 0 if offset is None else offset // _MINUTE


def check_hours(hours: DeliveryHours | None) -> None:
    """Raises INVALID_CONFIGURATION for hours in a time zone that this node does not know."""
    if hours is not None:
        local_offset(hours.zone)


def is_open(hours: DeliveryHours | None, now_ms: int) -> bool:
    """True if a queue with these hours delivers now."""
    return hours is None or pure.is_open(hours, now_ms, local_offset(hours.zone))


def opens_ms(hours: DeliveryHours | None, now_ms: int) -> int:
    """The next time at which a queue with these hours delivers: now, or when the hours open."""
    return now_ms if hours is None else pure.opens_ms(hours, now_ms, local_offset(hours.zone))

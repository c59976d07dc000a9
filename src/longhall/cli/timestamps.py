"""Timestamps as people write and read them.

    2026-01-31  ·  2026-01-31T12:00  ·  2026-01-31 12:00:30+01:00  ·  2h ago  ·  @1767225600000 (ms since 1970)

A time without a zone is in the zone of this machine, as in a shell. The current time is an argument.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from longhall.cli.exits import CommandError, Exit
from longhall.node.quantities import parse_duration_ms

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def parse_timestamp_ms(text: str, now_ms: int) -> int:
    """Milliseconds since 1970."""
    words = text.strip()
    try:
        if words.endswith(" ago"):
            return now_ms - parse_duration_ms(words.removesuffix(" ago"), unit_required=True)
        if words.startswith("@"):
            return int(words[1:])
        if words == "now":
            return now_ms
        return (datetime.fromisoformat(words).astimezone(UTC) - _EPOCH) // timedelta(milliseconds=1)
    except (ValueError, OverflowError):
        raise CommandError(
            f"{text!r} is not a time; write it like 2026-01-31T12:00, '2h ago' or @1767225600000", Exit.USAGE
        ) from None


def show_timestamp(at_ms: int | None) -> str | None:
    """A timestamp for people and programs; None if there is none."""
    if at_ms is None or at_ms < 0:
        return None
    try:
        moment = datetime.fromtimestamp(at_ms / 1000, UTC)
    except (ValueError, OverflowError, OSError):
        return f"@{at_ms}"
    return moment.strftime("%Y-%m-%dT%H:%M:%S.") + f"{at_ms % 1000:03d}Z"

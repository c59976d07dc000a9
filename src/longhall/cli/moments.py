"""Points in time and places in a partition, as people say them.

    2026-01-31  ·  2026-01-31T12:00  ·  2026-01-31 12:00:30+01:00  ·  2h ago  ·  @1767225600000 (ms since 1970)

A time without a zone is meant in the zone of the machine, as in a shell. Now is an argument.
"""

from __future__ import annotations

import enum
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

from longhall.cli.exits import CommandError, Exit
from longhall.node.quantities import parse_duration_ms

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class Anchor(enum.Enum):
    """What a place is counted from."""

    BEGINNING = "beginning"
    END = "end"
    OFFSET = "offset"
    BEFORE_END = "before-end"
    TIME = "time"
    COMMITTED = "committed"


class StartPosition(NamedTuple):
    """Where in a partition to begin: an anchor, and the offset, distance or milliseconds that it needs."""

    anchor: Anchor
    number: int = 0


def parse_place(text: str, now_ms: int) -> StartPosition:
    """`beginning`, `end`, `committed`, an offset, `-10` for the last ten, or a point in time."""
    word = text.strip().lower()
    if word in ("beginning", "earliest", "start"):
        return StartPosition(Anchor.BEGINNING)
    if word in ("end", "latest"):
        return StartPosition(Anchor.END)
    if word == "committed":
        return StartPosition(Anchor.COMMITTED)
    if word.isascii() and word.isdigit():
        return StartPosition(Anchor.OFFSET, int(word))
    if word.startswith("-") and word[1:].isascii() and word[1:].isdigit():
        return StartPosition(Anchor.BEFORE_END, int(word[1:]))
    try:
        return StartPosition(Anchor.TIME, parse_moment_ms(text, now_ms))
    except CommandError:
        raise CommandError(
            f"{text!r} is no place to begin; write beginning, end, an offset, -10 for the last ten, or a time like "
            "2026-01-31T12:00 or '2h ago'",
            Exit.USAGE,
        ) from None


def parse_moment_ms(text: str, now_ms: int) -> int:
    """Milliseconds since 1970."""
    words = text.strip()
    try:
        if words.endswith(" ago"):
            return now_ms - parse_duration_ms(words.removesuffix(" ago"))
        if words.startswith("@"):
            return int(words[1:])
        if words == "now":
            return now_ms
        return (datetime.fromisoformat(words).astimezone(UTC) - _EPOCH) // timedelta(milliseconds=1)
    except (ValueError, OverflowError):
        raise CommandError(
            f"{text!r} is no point in time; write it like 2026-01-31T12:00, '2h ago' or @1767225600000", Exit.USAGE
        ) from None


def show_moment(at_ms: int | None) -> str | None:
    """A timestamp as people and programs both read it; None when there is none."""
    if at_ms is None or at_ms < 0:
        return None
    try:
        moment = datetime.fromtimestamp(at_ms / 1000, UTC)
    except (ValueError, OverflowError, OSError):
        return f"@{at_ms}"
    return moment.strftime("%Y-%m-%dT%H:%M:%S.") + f"{at_ms % 1000:03d}Z"

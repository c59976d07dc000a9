"""Start positions in a partition, as people write them, and the offsets that they mean in each partition."""

from __future__ import annotations

import enum
import time
from typing import NamedTuple

from longhall.cli.exits import CommandError, Exit
from longhall.cli.timestamps import parse_timestamp_ms
from longhall.client.hall import Hall
from longhall.client.records import EARLIEST, LATEST, READ_UNCOMMITTED


class Anchor(enum.Enum):
    """The reference point of a position."""

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


def parse_start_position(text: str, now_ms: int) -> StartPosition:
    """`start`, `end`, `committed`, an offset, `-10` for the last ten, or a point in time.

    Kafka's words for the first two, earliest and latest, are understood as well.
    """
    word = text.strip().lower()
    if word in ("start", "earliest", "beginning"):
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
        return StartPosition(Anchor.TIME, parse_timestamp_ms(text, now_ms))
    except CommandError:
        raise CommandError(
            f"{text!r} is not a start position; write start, end, an offset, -10 for the last ten, or a time like "
            "2026-01-31T12:00 or '2h ago'",
            Exit.USAGE,
        ) from None


async def partitions_of(hall: Hall, topic: str) -> list[int]:
    """The partitions of a topic in order."""
    return sorted(each.partition_index for each in (await hall.topics.describe(topic)).partitions)


async def find_offsets(hall: Hall, topic: str, text: str, partitions: list[int] | None = None) -> dict[int, int]:
    """The offsets that `text` means in each partition, within what exists."""
    wanted = await partitions_of(hall, topic) if partitions is None else partitions
    return await offsets_at(hall, topic, parse_start_position(text, int(time.time() * 1000)), wanted)


async def offsets_at(
    hall: Hall, topic: str, place: StartPosition, partitions: list[int], isolation_level: int = READ_UNCOMMITTED
) -> dict[int, int]:
    """The offsets that a parsed position means in each partition."""
    if place.anchor is Anchor.COMMITTED:
        raise CommandError("committed is a position only within a group; give --group", Exit.USAGE)
    starts = await hall.records.list_offsets(topic, dict.fromkeys(partitions, EARLIEST))
    ends = await hall.records.list_offsets(topic, dict.fromkeys(partitions, LATEST), isolation_level=isolation_level)
    if place.anchor is Anchor.BEGINNING:
        return {number: starts[number].offset for number in partitions}
    if place.anchor is Anchor.END:
        return {number: ends[number].offset for number in partitions}
    if place.anchor is Anchor.TIME:
        found = await hall.records.list_offsets(topic, dict.fromkeys(partitions, max(place.number, 0)))
        # Nothing that late is there: the next message will be.
        return {
            number: found[number].offset if found[number].offset >= 0 else ends[number].offset for number in partitions
        }
    return {
        number: min(
            max(
                place.number if place.anchor is Anchor.OFFSET else ends[number].offset - place.number,
                starts[number].offset,
            ),
            ends[number].offset,
        )
        for number in partitions
    }

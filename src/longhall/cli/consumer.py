"""The reader of `consume`: from positions in partitions, or as a member of a group.

`write` gets records in order within each partition. A group's offsets are committed after the write and not before, so
that a broken pipe loses nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from longhall.cli.exits import CommandError, Exit
from longhall.cli.start_position import Anchor, StartPosition, offsets_at, partitions_of
from longhall.client.groups import Committed
from longhall.client.groups import Place as PartitionPlace
from longhall.client.hall import Hall
from longhall.client.member import GroupMember
from longhall.client.reader import Consumed, Reader
from longhall.client.records import EARLIEST, LATEST, READ_COMMITTED, READ_UNCOMMITTED
from longhall.queues.envelope import decode_record
from longhall.queues.filters import Filter

Write = Callable[[list[Consumed]], None]


class ConsumeOptions(NamedTuple):
    """The options of `consume`."""

    topics: list[str]
    place: StartPosition
    follow: bool
    limit: int | None
    partitions: list[int] | None
    uncommitted: bool
    filter: str = ""
    fits: Filter | None = None  # The same, for brokers that do not sift.

    def wants(self, consumed: Consumed) -> bool:
        """True if a message matches the filter."""
        return self.fits is None or self.fits.matches(decode_record(consumed.record, consumed.partition))

    @property
    def isolation_level(self) -> int:
        return READ_UNCOMMITTED if self.uncommitted else READ_COMMITTED


async def consume_partitions(hall: Hall, options: ConsumeOptions, write: Write) -> None:
    """Read until the end at the start of the command, until the limit, or for ever."""
    positions: dict[PartitionPlace, int] = {}
    ends: dict[PartitionPlace, int] = {}
    for topic in options.topics:
        partitions = await _chosen(hall, topic, options.partitions)
        begin = await offsets_at(hall, topic, options.place, partitions, options.isolation_level)
        positions.update({(topic, number): offset for number, offset in begin.items()})
        if not options.follow:
            ends.update(await _ends(hall, options, topic, partitions))
    reader = Reader(hall, positions, isolation_level=options.isolation_level, filter=options.filter)
    left = options.limit
    try:
        _forget_finished(reader, ends)
        while reader.positions and left != 0:
            consumed = _within(options, await reader.poll(), ends, left)
            write(consumed)
            left = None if left is None else left - len(consumed)
            _forget_finished(reader, ends)
    finally:
        reader.close()


async def consume_as_member(hall: Hall, group: str, options: ConsumeOptions, write: Write) -> None:
    """Read the partitions that the group assigns to this member."""
    member = GroupMember(
        hall,
        group,
        options.topics,
        start=_start(options.place),
        isolation_level=options.isolation_level,
        filter=options.filter,
    )
    ends: dict[PartitionPlace, int] = {}
    if not options.follow:
        for topic in options.topics:
            ends.update(await _ends(hall, options, topic, await partitions_of(hall, topic)))
    left = options.limit
    try:
        while left != 0:
            consumed = _within(options, await member.poll(), ends, left)
            write(consumed)
            left = None if left is None else left - len(consumed)
            if consumed:
                behind = {(topic, number): Committed(record.offset + 1) for topic, number, record in consumed}
                await hall.groups.commit(group, behind, member.membership)
            if not options.follow and all(at.offset >= ends.get(place, 0) for place, at in member.positions.items()):
                break
    finally:
        await member.leave()


async def _chosen(hall: Hall, topic: str, wanted: list[int] | None) -> list[int]:
    there = await partitions_of(hall, topic)
    for number in wanted or []:
        if number not in there:
            raise CommandError(f"{topic} has no partition {number}; it has 0 to {len(there) - 1}", Exit.REFUSED)
    return wanted or there


async def _ends(hall: Hall, options: ConsumeOptions, topic: str, partitions: list[int]) -> dict[PartitionPlace, int]:
    found = await offsets_at(hall, topic, StartPosition(Anchor.END), partitions, options.isolation_level)
    return {(topic, number): offset for number, offset in found.items()}


def _forget_finished(reader: Reader, ends: dict[PartitionPlace, int]) -> None:
    for place, end in ends.items():
        if reader.positions.get(place, -1) >= end:
            del reader.positions[place]


def _within(
    options: ConsumeOptions, consumed: list[Consumed], ends: dict[PartitionPlace, int], left: int | None
) -> list[Consumed]:
    """The records that match the filter, are before the end unless following, and are within the limit."""
    if options.fits is not None:
        consumed = [each for each in consumed if options.wants(each)]
    if ends:
        consumed = [each for each in consumed if each.record.offset < ends.get((each.topic, each.partition), 0)]
    return consumed if left is None else consumed[:left]


def _start(place: StartPosition) -> int:
    if place.anchor in (Anchor.BEGINNING, Anchor.COMMITTED):
        return EARLIEST
    if place.anchor is Anchor.END:
        return LATEST
    if place.anchor is Anchor.TIME:
        return max(place.number, 0)
    raise CommandError(
        "a group continues at its committed offsets, and --from may be start, end or a time for partitions "
        "without one; `longhall group reset` moves it",
        Exit.USAGE,
    )

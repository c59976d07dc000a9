"""The plan of a group's offset reset. The command commits it if --yes is given."""

from __future__ import annotations

import time

from longhall.cli.exits import CommandError, Exit
from longhall.cli.start_position import Anchor, StartPosition, offsets_at, parse_start_position, partitions_of
from longhall.client.groups import Committed
from longhall.client.groups import Place as PartitionPlace
from longhall.client.hall import Hall
from longhall.client.refusals import Refused
from longhall.errors import Code

Plan = dict[PartitionPlace, tuple[int | None, int]]  # What is committed now, and what would be.


async def plan_reset(hall: Hall, group: str, topics: list[str], to: str | None, shift_by: int | None) -> Plan:
    """Raises CommandError if the group has members: they would overwrite the offsets at once."""
    place = StartPosition(Anchor.COMMITTED) if to is None else parse_start_position(to, int(time.time() * 1000))
    await _check_group(hall, group, is_new=bool(topics))
    committed = await hall.groups.offsets(group)
    plan: Plan = {}
    for topic, partitions in (await _scope(hall, topics, committed)).items():
        if shift_by is None:
            targets = await offsets_at(hall, topic, place, partitions)
        else:
            targets = await _shifted(hall, group, topic, partitions, committed, shift_by)
        for number, target in targets.items():
            now = committed.get((topic, number))
            plan[topic, number] = (None if now is None else now.offset, target)
    return plan


async def _check_group(hall: Hall, group: str, is_new: bool) -> None:
    """Refuse a group with members, and an unknown one unless topics are named for it."""
    try:
        described = await hall.groups.describe(group)
    except Refused as failure:
        if failure.code is Code.GROUP_UNKNOWN and is_new:
            return  # Offsets may be laid out for a group before its first member comes.
        raise
    if described.members:
        count = len(described.members)
        raise CommandError(
            f"{group} has {count} member{'s' * (count > 1)}; its offsets can be moved when the last one has left"
        )


async def _scope(hall: Hall, topics: list[str], committed: dict[PartitionPlace, Committed]) -> dict[str, list[int]]:
    scope: dict[str, list[int]] = {}
    for text in topics:
        name, colon, numbers = text.partition(":")
        try:
            scope[name] = sorted({int(number) for number in numbers.split(",")}) if colon else []
        except ValueError:
            raise CommandError(f"--topic {text}: write TOPIC or TOPIC:0,1", Exit.USAGE) from None
        scope[name] = scope[name] or await partitions_of(hall, name)
    if not topics:
        for name, number in sorted(committed):
            scope.setdefault(name, []).append(number)
    return scope


async def _shifted(
    hall: Hall,
    group: str,
    topic: str,
    partitions: list[int],
    committed: dict[PartitionPlace, Committed],
    shift_by: int,
) -> dict[int, int]:
    starts = await offsets_at(hall, topic, StartPosition(Anchor.BEGINNING), partitions)
    ends = await offsets_at(hall, topic, StartPosition(Anchor.END), partitions)
    targets: dict[int, int] = {}
    for number in partitions:
        now = committed.get((topic, number))
        if now is None:
            raise CommandError(f"{group} has committed nothing in {topic}-{number}: use --to instead of --shift-by")
        targets[number] = min(max(now.offset + shift_by, starts[number]), ends[number])
    return targets

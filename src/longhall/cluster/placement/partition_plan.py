"""Plans of moves: which partitions go to which replication groups. Pure: it plans, and the mover moves.

A plan moves as little as possible: a partition leaves its group only if that group has more than its share, or takes
part no longer. So of a host that joins only its share moves, and a plan that was carried out is followed by an empty
one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from typing import NamedTuple


class PlacedPartition(NamedTuple):
    """A partition, and the group that stores it."""

    topic: str
    partition: int
    group: int


def plan_targets(owners: list[int], groups: Collection[int]) -> dict[int, int]:
    """The partitions of one topic that have to move, with their targets, so that these groups have equal shares."""
    placed = [PlacedPartition("", number, owner) for number, owner in enumerate(owners)]
    return {move.partition: move.group for move in plan_balance(placed, groups)}


def plan_balance(
    partitions: Iterable[PlacedPartition], groups: Collection[int], weights: Mapping[int, int] | None = None
) -> list[PlacedPartition]:
    """The moves after which each group has its share of the partitions; `group` is the target.

    `weights` has what a group has besides, in partitions. Of a group with too many those leave first whose topic has
    many partitions there and few in the target, so that the partitions of a topic stay apart. They go to the group with
    the fewest of the topic among those with the fewest in all.
    """
    if not groups:
        return []
    kept: dict[int, list[PlacedPartition]] = {group: [] for group in groups}
    homeless: list[PlacedPartition] = []
    for one in partitions:
        kept.get(one.group, homeless).append(one)
    counts = {group: len(kept[group]) + (weights or {}).get(group, 0) for group in groups}
    of_topic = Counter((one.topic, group) for group, some in kept.items() for one in some)
    moves: list[PlacedPartition] = []

    def give(one: PlacedPartition) -> None:
        target = min(groups, key=lambda group: (counts[group], of_topic[one.topic, group], group))
        counts[target] += 1
        of_topic[one.topic, target] += 1
        kept[target].append(one)
        moves.append(one._replace(group=target))

    for one in sorted(homeless):
        give(one)
    while True:  # It ends: each move makes the difference between the two groups smaller.
        able = [group for group in groups if kept[group]]
        if not able:
            break
        source = max(able, key=lambda group: (counts[group], group))
        target = min(groups, key=lambda group: (counts[group], group))
        if counts[source] - counts[target] < 2:
            break
        staying = [one for one in kept[source] if one.group == source]
        if not staying:
            break
        rank = {one.topic: of_topic[one.topic, source] - of_topic[one.topic, target] for one in staying}
        one = max(staying, key=lambda one: (rank[one.topic], one.topic, one.partition))
        kept[source].remove(one)
        counts[source] -= 1
        of_topic[one.topic, source] -= 1
        give(one)
    return moves

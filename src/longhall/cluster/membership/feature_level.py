"""The feature level of a cluster: which formats its nodes may write, and when it may be raised.

| on record | every known node reads | decided |
|---|---|---|
| level N | N + 1 or more | it may be raised: by an operator, or by the controller where the settings say so |
| level N | N alone, at least one of them | nothing; that node is named |
| level N | a node is away, so its level is unknown | nothing; it has to come back, or leave the cluster for good |

The known nodes are the live ones and the replicas. The level never goes down: a node that could read the data stays
able to read it.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping

import msgspec

from longhall.broker.feature_gates import OLDEST
from longhall.coordination.ports import Coordinator, FeatureLevel, MemberDescription, ShardState
from longhall.errors import Code, LonghallError

_log = logging.getLogger("longhall.session")


class LevelOutlook(msgspec.Struct, frozen=True, kw_only=True):
    """The current level, the highest possible one, and the obstacles to the next."""

    level: int
    possible: int
    obstacles: list[str]  # To the level above the possible one, in words.


def level_of(recorded: int) -> int:
    """The level of a record; a record from before there were levels has the oldest."""
    return max(recorded, OLDEST)


def newest_of(member: MemberDescription) -> int:
    """The newest level that a node reads; a node from before there were levels reads the oldest."""
    return max(member.feature_level_max, OLDEST)


def outlook(recorded: int, members: Mapping[int, MemberDescription], replicas: Iterable[int]) -> LevelOutlook:
    """The outlook, from the recorded level and what the nodes read."""
    level = level_of(recorded)
    away = sorted(set(replicas) - set(members))
    newest = {node: newest_of(member) for node, member in sorted(members.items())}
    possible = max(min(newest.values(), default=level), level)
    obstacles = [f"node {node} knows up to level {known}" for node, known in newest.items() if known <= possible]
    if away:
        possible = level
        obstacles = [f"node {node} is away, and nobody knows what it knows" for node in away] + [
            f"node {node} knows up to level {known}" for node, known in newest.items() if known <= level
        ]
    return LevelOutlook(level=level, possible=possible, obstacles=obstacles)


async def raise_level(
    coordinator: Coordinator, state: ShardState, level: int, *, dry_run: bool
) -> tuple[LevelOutlook, FeatureLevel | None]:
    """Raise the feature level, unless it is reached already or this is a dry run; returns the outlook before, and the
    new record if there is one. LonghallError if not every node allows for it.
    """
    record = await coordinator.feature_level()
    found = outlook(record.level, await coordinator.members(), state.replicas)
    if level < found.level:
        reason = f"the cluster is at feature level {found.level}, and a level never goes down"
        raise LonghallError(Code.INVALID_CONFIGURATION, reason)
    if level > found.possible:
        why = "; ".join(found.obstacles)
        raise LonghallError(Code.INVALID_CONFIGURATION, f"feature level {level} cannot be reached: {why}")
    if dry_run or level == found.level:
        return found, None
    raised = await coordinator.change_feature_level(record, level)
    _log.info("the feature level was raised", extra={"level": level, "was": found.level})
    return found, raised

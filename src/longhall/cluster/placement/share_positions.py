"""The positions of share groups in a cluster: at the leader of the hall, and in the groups that store topics.

The hall has the members of share groups and their settings; a cursor is where its partitions are. What concerns several
groups is asked of all of them at once. Moving and deleting positions is one step in each group, not one over all: if a
group does not answer, the others have done their part, and the request can be repeated.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any, Final, Protocol, TypeVar, final

from longhall.broker.hall import Hall
from longhall.broker.pending import Pending
from longhall.broker.placement import group_of, groups_of
from longhall.broker.share.offsets import SharePosition
from longhall.broker.share.positions import HallSharePositions, PositionErrors
from longhall.cluster.placement.share_operations import (
    DeleteShareGroup,
    DeleteSharePositions,
    DescribeSharePositions,
    ListShareGroups,
    ListShareTopics,
    MoveSharePositions,
)
from longhall.cluster.rpc.operation import Operation
from longhall.coordination.ports import ReplicationGroup
from longhall.errors import Code, LonghallError
from longhall.topics.share_settings import ShareSettings

HALL: Final = 0

R = TypeVar("R")


class CalledGroups(Protocol):
    """The other groups, as positions need them."""

    @property
    def records(self) -> Mapping[str, ReplicationGroup]:
        """The groups, by name."""

    def call(self, number: int, operation: Operation[R], *, now: bool = False) -> Pending[R]:
        """Have the leader of a group carry out an operation."""


@final
class PlacedSharePositions:
    """The positions in all replication groups, at the leader of the hall. Fulfils `SharePositions`."""

    def __init__(self, hall: Hall, groups: CalledGroups) -> None:
        self._hall = hall
        self._here = HallSharePositions(hall)
        self._groups = groups

    async def groups(self) -> set[str]:
        """The groups with cursors; without those of a replication group that has no leader at this moment."""
        asked = [self._groups.call(number, ListShareGroups(), now=True) for number in self._numbers()]
        found = await self._here.groups()
        for answer in await asyncio.gather(*asked, return_exceptions=True):
            if isinstance(answer, list):
                found.update(answer)
            elif not isinstance(answer, LonghallError):
                raise answer
        return found

    async def topics(self, group_id: str) -> set[str]:
        asked = [self._groups.call(number, ListShareTopics(group_id)) for number in self._numbers()]
        return (await self._here.topics(group_id)).union(*await asyncio.gather(*asked))

    async def describe(self, group_id: str, topic: str, numbers: list[int]) -> list[SharePosition]:
        places = self._by_group(topic, numbers)
        rows = await asyncio.gather(*(self._describe(at, group_id, topic, own) for at, own in places.items()))
        found: dict[int, SharePosition] = {}
        for own, positions in zip(places.values(), rows, strict=True):
            found.update(zip(own, positions, strict=True))
        return [found[number] for number in numbers]

    async def _describe(self, at: int, group_id: str, topic: str, numbers: list[int]) -> list[SharePosition]:
        if at == HALL:
            return await self._here.describe(group_id, topic, numbers)
        try:
            return await self._groups.call(at, DescribeSharePositions(group_id, topic, numbers))
        except LonghallError as error:
            return [SharePosition(code=error.code, message=str(error))] * len(numbers)

    async def move(self, group_id: str, topic: str, offsets: Mapping[int, int]) -> PositionErrors:
        places = self._by_group(topic, offsets)
        moves = (self._move(at, group_id, topic, {n: offsets[n] for n in own}) for at, own in places.items())
        return {number: error for errors in await asyncio.gather(*moves) for number, error in errors.items()}

    async def _move(self, at: int, group_id: str, topic: str, offsets: dict[int, int]) -> PositionErrors:
        if at == HALL:
            return await self._here.move(group_id, topic, offsets)
        given = self._hall.groups_of(group_id).configurations.given(group_id)
        try:
            await self._groups.call(at, MoveSharePositions(group_id, topic, offsets, dict(given)))
        except LonghallError as error:
            return dict.fromkeys(offsets, error)
        return {}

    async def delete(self, group_id: str, topic: str) -> None:
        found = self._hall.topic(topic)
        numbers = groups_of(found.options.wings, found.options.moves) if found is not None else []
        steps: list[Awaitable[None]] = [self._groups.call(at, DeleteSharePositions(group_id, topic)) for at in numbers]
        steps.append(self._here.delete(group_id, topic))
        refused = [one for one in await asyncio.gather(*steps, return_exceptions=True) if one is not None]
        for error in refused:
            if not isinstance(error, LonghallError) or error.code is not Code.UNKNOWN_TOPIC:
                raise error
        if len(refused) == len(steps):
            raise refused[-1]

    async def delete_all(self, group_id: str) -> None:
        await asyncio.gather(*(self._groups.call(number, DeleteShareGroup(group_id)) for number in self._numbers()))
        await self._here.delete_all(group_id)

    def _numbers(self) -> list[int]:
        """The groups that store something, as far as this node knows."""
        return [group.number for group in self._groups.records.values() if group.hosts]

    def _by_group(self, topic: str, numbers: Iterable[int]) -> dict[int, list[int]]:
        """These partitions by the group that stores them."""
        found = self._hall.topic(topic)
        places: dict[int, list[int]] = {}
        for number in numbers:
            at = group_of(found.options.wings, number) if found is not None else HALL
            places.setdefault(at, []).append(number)
        return places


class Operations(Protocol):
    """The operations that a process carries out; fulfilled by `service.local`."""

    def also(self, kind: type[Any], action: Callable[[Any, Any], Any]) -> None: ...


def serve_share_positions(hall: Hall, broker: Operations) -> None:
    """Carry out these operations in the process of a group."""
    here = HallSharePositions(hall)

    async def list_groups(op: ListShareGroups, caller: object) -> list[str]:
        return sorted(await here.groups())

    async def list_topics(op: ListShareTopics, caller: object) -> list[str]:
        return sorted(await here.topics(op.group_id))

    async def move(op: MoveSharePositions, caller: object) -> None:
        refused = await here.move_with(op.group_id, op.topic, op.offsets, ShareSettings(op.settings))
        for error in refused.values():
            raise error

    broker.also(ListShareGroups, list_groups)
    broker.also(ListShareTopics, list_topics)
    broker.also(DescribeSharePositions, lambda op, caller: here.describe(op.group_id, op.topic, op.partitions))
    broker.also(MoveSharePositions, move)
    broker.also(DeleteSharePositions, lambda op, caller: here.delete(op.group_id, op.topic))
    broker.also(DeleteShareGroup, lambda op, caller: here.delete_all(op.group_id))

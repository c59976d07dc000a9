"""The calls of the mover to both ends of a copy: to another group, or to the hall in this process."""

from __future__ import annotations

import asyncio
from typing import Final, Protocol, TypeVar, final

from longhall.broker import partition_copy, queue_copy
from longhall.broker.hall import Hall
from longhall.broker.partition_copy import CopyEnd, CopyPlace, LogPiece
from longhall.broker.pending import Pending
from longhall.broker.queue_copy import QueueLogs, StatePiece
from longhall.cluster.placement.move_operations import (
    AppendPiece,
    AppendQueueState,
    CompleteCopy,
    CompleteQueueCopy,
    DiscardCopy,
    ListQueueLogs,
    ProveCopy,
    ReadPiece,
    ReadQueueState,
)
from longhall.cluster.rpc.operation import Operation

HALL: Final = 0
CALL_S_MAX: Final = 10.0  # Of one call to a group.

R = TypeVar("R")


class CalledGroups(Protocol):
    """The other groups, as the calls use them."""

    def call(self, number: int, operation: Operation[R]) -> Pending[R]:
        """Have the leader of a group carry out an operation."""


@final
class CopyCalls:
    """Each call goes to the source or the target of the move that its place names."""

    def __init__(self, hall: Hall, groups: CalledGroups) -> None:
        self._hall = hall
        self._groups = groups

    async def read(self, place: CopyPlace, offset: int) -> LogPiece:
        if place.move.source == HALL:
            return await partition_copy.read_piece(self._hall, place, offset)
        return await self._call(place.move.source, ReadPiece(place, offset))

    async def append(self, place: CopyPlace, offset: int, piece: LogPiece) -> int:
        if place.move.target == HALL:
            return await partition_copy.append_piece(self._hall, place, offset, piece)
        return await self._call(place.move.target, AppendPiece(place, offset, piece))

    async def complete(self, place: CopyPlace, piece: LogPiece) -> CopyEnd:
        if place.move.target == HALL:
            return await partition_copy.complete_copy(self._hall, place, piece)
        return await self._call(place.move.target, CompleteCopy(place, piece))

    async def prove(self, place: CopyPlace) -> CopyEnd:
        if place.move.target == HALL:
            return await partition_copy.prove(self._hall, place)
        return await self._call(place.move.target, ProveCopy(place))

    async def discard(self, place: CopyPlace, group: int) -> None:
        if group == HALL:
            await partition_copy.discard(self._hall, place)
        else:
            await self._call(group, DiscardCopy(place))

    # Queues

    async def logs(self, place: CopyPlace) -> QueueLogs:
        if place.move.source == HALL:
            return await queue_copy.list_logs(self._hall, place)
        return await self._call(place.move.source, ListQueueLogs(place))

    async def read_state(self, place: CopyPlace, at: int) -> StatePiece:
        if place.move.source == HALL:
            return await queue_copy.read_state(self._hall, place, at)
        return await self._call(place.move.source, ReadQueueState(place, at))

    async def append_state(self, place: CopyPlace, at: int, piece: StatePiece) -> None:
        if place.move.target == HALL:
            await queue_copy.append_state(self._hall, place, at, piece)
        else:
            await self._call(place.move.target, AppendQueueState(place, at, piece))

    async def complete_queue(self, place: CopyPlace, logs: QueueLogs, at: int, piece: StatePiece) -> CopyEnd:
        if place.move.target == HALL:
            return await queue_copy.complete_queue(self._hall, place, logs, at, piece)
        return await self._call(place.move.target, CompleteQueueCopy(place, logs, at, piece))

    async def _call(self, number: int, operation: Operation[R]) -> R:
        async with asyncio.timeout(CALL_S_MAX):
            return await self._groups.call(number, operation)

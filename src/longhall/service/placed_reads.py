"""Reads of queues that other replication groups store: pages, letters, moves and counts, as if one group had all of it.

pages     go through one group after the other; a position names the lane of its group
counts    are added up
"""

from __future__ import annotations

from typing import Final, final

import msgspec

from longhall.cluster.placement.merged_replies import all_counts, all_depths, all_moves
from longhall.cluster.rpc.operation import Caller, Operation
from longhall.errors import Code, LonghallError
from longhall.queues.messages import Counts, Depth, Letter, LetterPage, MoveTask, Page
from longhall.service import queue_operations as ops
from longhall.service.placed_queue import AskGroup, PlacedQueue, ask_all

PAGES: Final = "/"  # Separates a lane from a position in it.


@final
class PlacedReads:
    """Carries out the reads of placed queues."""

    def __init__(self, ask: AskGroup) -> None:
        self._ask = ask

    async def page(
        self, queue: PlacedQueue, op: ops.PeekMessages | ops.ListLeases | ops.SearchMessages, caller: Caller
    ) -> Page:
        """A page of messages: the groups follow each other, in the order of the lanes."""
        lane, position = self._lane_of(queue, op.from_offset)
        asked: Operation[Page] = msgspec.structs.replace(op, from_offset=position)
        page = await self._ask(queue, queue.settings.wings[lane], asked, caller)
        return msgspec.structs.replace(page, next=self._next(queue, lane, page.next))

    async def letters(self, queue: PlacedQueue, op: ops.ListLetters, caller: Caller) -> LetterPage:
        """A page of letters, in the same order."""
        lane, position = self._lane_of(queue, op.from_position)
        asked = msgspec.structs.replace(op, from_position=position)
        page = await self._ask(queue, queue.settings.wings[lane], asked, caller)
        return msgspec.structs.replace(page, next_from=self._next(queue, lane, page.next_from))

    def _lane_of(self, queue: PlacedQueue, position: int | str) -> tuple[int, str]:
        """The lane of a position, and the position in it."""
        if position == "":
            return 0, ""
        lane, slash, rest = str(position).partition(PAGES)
        if not slash or not lane.isdecimal() or int(lane) >= len(queue.settings.wings):
            raise LonghallError(
                Code.INVALID_REQUEST, f"There is no such position in '{queue.name}': go on where a page ended."
            )
        return int(lane), rest

    def _next(self, queue: PlacedQueue, lane: int, position: str) -> str:
        if position:
            return f"{lane}{PAGES}{position}"
        return f"{lane + 1}{PAGES}" if lane + 1 < len(queue.settings.wings) else ""

    async def letter(self, queue: PlacedQueue, op: ops.ReadLetter | ops.EditLetter, caller: Caller) -> Letter:
        """Read or edit the message in the group that has it."""
        *first, last = queue.settings.wings
        for number in first:
            try:
                return await self._ask(queue, number, op, caller)
            except LonghallError as error:
                if error.code is not Code.UNKNOWN_MESSAGE:
                    raise
        return await self._ask(queue, last, op, caller)

    async def moves(self, queue: PlacedQueue, op: ops.ListMoves, caller: Caller) -> list[MoveTask]:
        """The moves of a queue; one that runs in several groups is shown once."""
        moves: list[list[MoveTask]] = await ask_all(self._ask, queue, op, caller)
        return all_moves(queue.settings.wings, moves)

    async def depth(self, queue: PlacedQueue, op: ops.MeasureQueue, caller: Caller) -> Depth:
        """The message counts of all groups together."""
        return all_depths(await ask_all(self._ask, queue, op, caller))

    async def counts(self, queue: PlacedQueue, op: ops.CountQueue, caller: Caller) -> Counts:
        """The counters of all groups together."""
        return all_counts(await ask_all(self._ask, queue, op, caller))

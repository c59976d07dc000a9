"""Looking into queues that are placed in wings, and what operators do with them: lane after lane, or all at once."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, TypeVar

import msgspec

from longhall.broker.queues.upkeep.rewind import START, Destination
from longhall.cluster.wings import calls
from longhall.cluster.wings.asking import Asking
from longhall.cluster.wings.calls import Verb
from longhall.cluster.wings.sums import all_moves, one_move, parts_of_move
from longhall.errors import Code, LonghallError
from longhall.queues.messages import Attribute, Letter, LetterPage, MoveTask, Page, QueueView
from longhall.queues.settings import QueueSettings

PAGES: Final = "/"  # A lane, and a place in it.

Names = list[str]
Moves = list[MoveTask]

R = TypeVar("R")


class Browsing(Asking):
    """See the module."""

    async def rewind(self, name: str, to: Destination) -> None:
        """Give out again from "start", from a time in milliseconds, or from an offset for each lane."""
        wings = self._wings(name)
        if not wings:
            await self._desk.rewind(name, to)
        elif isinstance(to, Mapping):
            for lane, number in enumerate(wings):
                part = {place: offset for place, offset in to.items() if place % len(wings) == lane}
                if part:
                    await self._ask(name, number, calls.REWIND, name, part)
        else:
            await self._everywhere(name, calls.REWIND, to)

    async def fork(
        self, name: str, new_name: str, start: Destination = START, settings: QueueSettings | None = None
    ) -> QueueView:
        """A second queue with a cursor of its own over the same log, from there on."""
        self._only_here(name, "be forked")
        return await self._desk.fork(name, new_name, start, settings)

    # Page after page

    async def peek(self, name: str, count_max: int, from_offset: int | str = "", settled: bool = False) -> Page:
        """Messages with their state, without taking them; `settled` shows what is done with as well."""
        if not self._wings(name):
            return await self._desk.peek(name, count_max, from_offset, settled)
        lane, place = self._lane_of(name, from_offset)
        return self._turned(name, lane, await self._in_lane(name, lane, calls.PEEK, count_max, place, settled))

    async def leased(self, name: str, count_max: int, from_offset: int | str = "") -> Page:
        """The messages that somebody has now."""
        if not self._wings(name):
            return await self._desk.leased(name, count_max, from_offset)
        lane, place = self._lane_of(name, from_offset)
        return self._turned(name, lane, await self._in_lane(name, lane, calls.LEASED, count_max, place))

    async def search(
        self,
        name: str,
        filter: str = "",
        text: str = "",
        from_ms: int = 0,
        until_ms: int = 0,
        count_max: int = 100,
        from_offset: int | str = "",
        settled: bool = False,
    ) -> Page:
        """The same for those that fit: by attributes, by what is in their bodies, by when they were sent."""
        if not self._wings(name):
            return await self._desk.search(name, filter, text, from_ms, until_ms, count_max, from_offset, settled)
        lane, place = self._lane_of(name, from_offset)
        sought = (filter, text, from_ms, until_ms, count_max, place, settled)
        return self._turned(name, lane, await self._in_lane(name, lane, calls.SEARCH, *sought))

    async def letters(self, name: str, count_max: int = 100, from_: str = "") -> LetterPage:
        """What is in a queue with all that is known of each, from the place on that the page before told."""
        if not self._wings(name):
            return await self._desk.letters(name, count_max, from_)
        lane, place = self._lane_of(name, from_)
        page = await self._in_lane(name, lane, calls.LETTERS, count_max, place)
        return msgspec.structs.replace(page, next_from=self._next(name, lane, page.next_from))

    async def _in_lane(self, name: str, lane: int, verb: Verb[R], *arguments: object) -> R:
        return await self._ask(name, self._wings(name)[lane], verb, name, *arguments)

    def _lane_of(self, name: str, place: int | str) -> tuple[int, str]:
        """Which lane goes on, and where in it."""
        if place == "":
            return 0, ""
        lane, slash, rest = str(place).partition(PAGES)
        if not slash or not lane.isdecimal() or int(lane) >= len(self._wings(name)):
            raise LonghallError(Code.INVALID_REQUEST, f"There is no such place in '{name}': go on where a page ended.")
        return int(lane), rest

    def _next(self, name: str, lane: int, place: str) -> str:
        if place:
            return f"{lane}{PAGES}{place}"
        return f"{lane + 1}{PAGES}" if lane + 1 < len(self._wings(name)) else ""

    def _turned(self, name: str, lane: int, page: Page) -> Page:
        return msgspec.structs.replace(page, next=self._next(name, lane, page.next))

    # Letters

    async def letter(self, name: str, message_id: str) -> Letter:
        """One of them; UNKNOWN_MESSAGE if it is not there."""
        if not self._wings(name):
            return await self._desk.letter(name, message_id)
        return await self._wherever(name, calls.LETTER, message_id)

    async def edit_letter(
        self,
        name: str,
        message_id: str,
        body: bytes | None = None,
        attributes: Mapping[str, Attribute] | None = None,
    ) -> Letter:
        """Replace its body, its attributes (all of them) or both; MESSAGE_LEASED while somebody has it."""
        if not self._wings(name):
            return await self._desk.edit_letter(name, message_id, body, attributes)
        return await self._wherever(name, calls.EDIT_LETTER, message_id, body, attributes)

    async def _wherever(self, name: str, verb: Verb[Letter], message_id: str, *more: object) -> Letter:
        """Whichever wing has the message."""
        *first, last = self._wings(name)
        for number in first:
            try:
                return await self._ask(name, number, verb, name, message_id, *more)
            except LonghallError as error:
                if error.code is not Code.UNKNOWN_MESSAGE:
                    raise
        return await self._ask(name, last, verb, name, message_id, *more)

    # Moves

    async def start_move(
        self, source: str, target: str, rate_max: int, ids: Names | None = None, filter: str = ""
    ) -> MoveTask:
        """Move the messages of a queue to another, or each back to where it came from. From wings to the same wings."""
        wings = self._wings(source)
        if target and self._wings(target) != wings:
            raise LonghallError(
                Code.INVALID_REQUEST, f"'{target}' is placed elsewhere: nothing is moved between wings."
            )
        if not wings:
            return await self._desk.start_move(source, target, rate_max, ids, filter)
        rate = -(-rate_max // len(wings))
        return one_move(wings, await self._everywhere(source, calls.START_MOVE, target, rate, ids, filter))

    async def cancel_move(self, task_id: str) -> MoveTask:
        """Stop a move."""
        parts = parts_of_move(task_id)
        if not parts:
            return await self._desk.cancel_move(task_id)
        stopped = [await self._reach.call(number, calls.CANCEL_MOVE, part) for number, part in parts]
        return one_move([number for number, _ in parts], stopped)

    async def list_moves(self, source: str) -> Moves:
        """The moves of a queue, the newest first."""
        wings = self._wings(source)
        if not wings:
            return self._desk.moves(source)
        told = await self._everywhere(source, calls.MOVES)
        return all_moves(wings, told)

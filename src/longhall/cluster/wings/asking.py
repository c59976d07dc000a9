"""What the verbs of a concourse share: where a queue is, and how one wing, some or all of them are asked."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final, TypeVar

from longhall.broker.hall import Hall
from longhall.broker.queues.desk import Desk
from longhall.cluster.wings.calls import Verb
from longhall.cluster.wings.reach import Reach
from longhall.errors import Code, LonghallError

BETWEEN: Final = "."  # The number of a wing, and what came from it.

Changes = list[tuple[str, int]]
Codes = list[Code | None]

A = TypeVar("A")
R = TypeVar("R")
Q = TypeVar("Q")


class Asking:
    """See the module."""

    def __init__(self, hall: Hall, desk: Desk, reach: Reach) -> None:
        self._hall = hall
        self._desk = desk
        self._reach = reach

    def _wings(self, name: str) -> tuple[int, ...]:
        """Where a queue is: the catalogue knows, also before its wings are heard of. With none it is not in wings."""
        queue = self._hall.running_queue(name)
        return queue.settings.wings if queue is not None else ()

    def _only_here(self, name: str, what: str) -> None:
        if self._wings(name):
            raise LonghallError(Code.INVALID_REQUEST, f"The queue '{name}' is kept in wings: it cannot {what}.")

    async def _ask(self, name: str, number: int, verb: Verb[R], *arguments: Any, now: bool = False) -> R:
        """One wing. A queue that is not there yet, though it is known here, is put there first.

        An earlier life of its name, which is to be cleared away, is not taken for it.
        """
        call = self._reach.call_now if now else self._reach.call
        try:
            return await call(number, verb, *arguments, life=self._life(name))
        except LonghallError as error:
            await self._put_there(name, error)
        return await call(number, verb, *arguments, life=self._life(name))

    async def _put_there(self, name: str, error: LonghallError) -> None:
        """A wing that should have a queue does not know it: it gets to know it. Raises every other error."""
        if error.code is not Code.UNKNOWN_QUEUE or not self._wings(name):
            raise error
        if not self._reach.leads:
            raise LonghallError(Code.NOT_READY, f"The queue '{name}' is not everywhere yet; try again.")
        await self._reach.furnish(name)

    def _life(self, name: str) -> bytes:
        """Which of the queues that have had this name is the one that is known here."""
        queue = self._hall.running_queue(name)
        return queue.entry.topic_id if queue is not None else b""

    async def _everywhere(self, name: str, verb: Verb[R], *arguments: Any) -> list[R]:
        """All of its wings, in the order of its lanes."""
        wings = self._wings(name)
        return await asyncio.gather(*(self._ask(name, number, verb, name, *arguments) for number in wings))

    def _wing_of(self, name: str, text: str, wrong: Code) -> tuple[int, str]:
        """The wing that something came from, and how it is called there."""
        number, _, rest = text.partition(BETWEEN)
        if not (number.isascii() and number.isdigit()) or int(number) not in self._wings(name):
            raise LonghallError(wrong, "It did not come from this queue.")
        return int(number), rest

    async def _by_receipt(self, name: str, changes: Changes, work: Callable[[int, Changes], Awaitable[Codes]]) -> Codes:
        """Each to the wing that gave the receipt; the answers in the order of the questions."""
        found: list[tuple[int, tuple[str, int]]] = []
        codes: Codes = [Code.INVALID_RECEIPT] * len(changes)
        places: list[int] = []
        for place, (receipt, lease_ms) in enumerate(changes):
            try:
                number, rest = self._wing_of(name, receipt, Code.INVALID_RECEIPT)
            except LonghallError:
                continue
            found.append((number, (rest, lease_ms)))
            places.append(place)
        told = await sort_out([number for number, _ in found], [change for _, change in found], work)
        for place, code in zip(places, told, strict=True):
            codes[place] = code
        return codes


async def sort_out(
    targets: Sequence[int], questions: Sequence[Q], work: Callable[[int, list[Q]], Awaitable[list[A]]]
) -> list[A]:
    """Ask each target its questions, all at once; the answers in the order of the questions."""
    places: dict[int, list[int]] = {}
    for place, target in enumerate(targets):
        places.setdefault(target, []).append(place)
    answers: dict[int, A] = {}
    told = await asyncio.gather(
        *(work(target, [questions[place] for place in some]) for target, some in places.items())
    )
    for some, found in zip(places.values(), told, strict=True):
        answers.update(zip(some, found, strict=True))
    return [answers[place] for place in range(len(questions))]

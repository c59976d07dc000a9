"""Receiving from several wings: the nearest first, then the others; who waits, waits for all of them at once.

A wing that has been asked is never left alone with what it gives out. Whoever waits in vain elsewhere is told that it
is enough, and its answer is awaited; messages that come when somebody else was quicker are given back. A wing that does
not answer at once holds nobody up: the others are asked, and what it brings later is given back as well. What is given
back was no attempt: nobody was shown it.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Any, Final, final

import msgspec

from longhall.cluster.wings import calls
from longhall.cluster.wings.reach import Reach
from longhall.errors import Code, LonghallError
from longhall.queues.messages import Delivery
from longhall.world.ports import Entropy

PATIENCE_S: Final = 0.5  # With a wing that was asked for what it has at hand.
LATE_MAX: Final = 1024  # Answers that nobody waits for any more.
ATTEMPTS_MAX: Final = 10_000

Found = tuple[int, list[Delivery]]  # From which wing.

_log = logging.getLogger("longhall.wings")


@final
class Receiving:
    """See the module."""

    def __init__(self, reach: Reach, entropy: Entropy) -> None:
        self._reach = reach
        self._entropy = entropy
        self._late: set[asyncio.Task[Any]] = set()
        self._attempts: dict[str, int] = {}  # Where a request that may be repeated found something.

    async def receive(self, wings: tuple[int, ...], wish: calls.Wish) -> Found:
        """Messages of one wing. LonghallError if none of them could be asked."""
        near = self._reach.nearest(wings)
        if wish.attempt_id in self._attempts:
            near.sort(key=lambda number: number != self._attempts[wish.attempt_id])
        if len(near) == 1:
            return near[0], await self._reach.call(near[0], calls.RECEIVE, wish, waits=True)
        number, found = await self._at_hand(near, wish)
        if not found and wish.wait_ms > 0:
            number, found = await self._wait(near, wish)
        if found and wish.attempt_id:
            if len(self._attempts) >= ATTEMPTS_MAX:
                self._attempts.pop(next(iter(self._attempts)))
            self._attempts[wish.attempt_id] = number
        return number, found

    async def _at_hand(self, near: list[int], wish: calls.Wish) -> Found:
        """What the first of them has that has anything."""
        at_once = msgspec.structs.replace(wish, wait_ms=0)
        failure: LonghallError | None = None
        answered = False
        for number in near:
            task = asyncio.ensure_future(self._reach.call_now(number, calls.RECEIVE, at_once))
            try:
                done, _ = await asyncio.wait((task,), timeout=PATIENCE_S)
            except asyncio.CancelledError:
                self._leave(number, wish.name, task)
                raise
            if not done:
                self._leave(number, wish.name, task)
                continue
            try:
                found = task.result()
            except LonghallError as error:
                if error.code is Code.INVALID_REQUEST:  # A filter that cannot be read is the same for all.
                    raise
                failure = error
                continue
            answered = True
            if found:
                return number, found
        if failure is not None and not answered and not wish.wait_ms:
            raise LonghallError(Code.NOT_READY, f"none of its wings can be asked at the moment: {failure}")
        return near[0], []

    async def _wait(self, near: list[int], wish: calls.Wish) -> Found:
        """The first that comes, from wherever."""
        ticket = self._entropy.bytes(12).hex()
        wish = msgspec.structs.replace(wish, ticket=ticket)
        tasks = {asyncio.ensure_future(self._reach.call(number, calls.RECEIVE, wish)): number for number in near}
        waiting: set[asyncio.Task[list[Delivery]]] = set(tasks)
        failure: LonghallError | None = None
        answered = False
        try:
            while waiting:
                done, waiting = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
                ended = [one for one in tasks if one in done]  # The nearest first.
                for task in ended:
                    try:
                        found = task.result()
                    except LonghallError as error:
                        failure = error
                        continue
                    answered = True
                    if found:
                        for other in ended:
                            if other is not task:
                                self._leave(tasks[other], wish.name, other)
                        return tasks[task], found
            if failure is not None and not answered:
                raise LonghallError(Code.NOT_READY, f"none of its wings can be asked at the moment: {failure}")
            return near[0], []
        finally:
            for task in [one for one in tasks if one in waiting]:
                self._end(tasks[task], ticket)
                self._leave(tasks[task], wish.name, task)

    def _end(self, number: int, ticket: str) -> None:
        self._keep(asyncio.ensure_future(self._reach.call(number, calls.ENOUGH, ticket)))

    def _leave(self, number: int, name: str, task: asyncio.Task[list[Delivery]]) -> None:
        """Nobody waits for it any more: whatever it brings is given back."""
        self._keep(asyncio.ensure_future(self._give_back(number, name, task)))

    async def _give_back(self, number: int, name: str, task: asyncio.Task[list[Delivery]]) -> None:
        receipts = [one.receipt for one in await task if one.receipt]
        if receipts:
            await self._reach.call(number, calls.HAND_BACK, name, receipts)

    def _keep(self, task: asyncio.Task[Any]) -> None:
        if len(self._late) >= LATE_MAX:
            _log.warning("too many answers of wings are late; one is left to its lease")
            task.cancel()
        self._late.add(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[Any]) -> None:
        self._late.discard(task)
        if not task.cancelled() and task.exception() is not None:
            _log.info("a wing did not answer in time", extra={"reason": str(task.exception())})

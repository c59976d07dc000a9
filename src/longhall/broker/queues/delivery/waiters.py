"""Receivers that wait for messages, in the order in which they came.

As many are woken as there are messages for: a message that arrives at a hundred receivers costs one of them a look, not
all. What a woken one will take is counted until it has looked, so that nobody else is woken for the same.
Those with a filter stand apart: they may have no use for what there is, so they never take the place of another.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Final, final

from longhall.broker.partition import Partition, Watcher

EVERYBODY: Final = 1 << 30


@final
class _Waiter:
    """One who waits, for at most `wanted` messages."""

    __slots__ = ("future", "wanted")

    def __init__(self, wanted: int) -> None:
        self.future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.wanted = wanted


@final
class Waiters(Watcher):
    """Those who wait at one queue. Waking one that has gone away wakes the next instead."""

    def __init__(self, available: Callable[[], int]) -> None:
        """`available` says for how many messages somebody may look, at least."""
        self._available = available
        self._waiting: deque[_Waiter] = deque()
        self._seeking: list[_Waiter] = []
        self._promised = 0  # Messages that those who were woken will take.

    def __len__(self) -> int:
        return len(self._waiting) + len(self._seeking)

    def more(self, partition: Partition) -> None:
        """Something was committed to one of the queue's logs."""
        self.offer()
        if len(self):
            partition.watchers[self] = None

    def offer(self, count_max: int = EVERYBODY) -> None:
        """Let as many look as there are messages for, and everybody who seeks something of their own."""
        self._wake_seekers()
        if self._waiting:
            left = self._available() - self._promised
            while left > 0 and count_max > 0 and self._waiting:
                taken = self._wake_next()
                left -= taken
                count_max -= 1 if taken else 0

    def wake(self, count: int) -> None:
        """Let so many look again, whatever there is, and everybody who seeks something of their own."""
        self._wake_seekers()
        while count > 0 and self._waiting:
            count -= 1 if self._wake_next() else 0

    def _wake_seekers(self) -> None:
        seeking, self._seeking = self._seeking, []
        for seeker in seeking:
            if not seeker.future.done():
                seeker.future.set_result(None)

    def _wake_next(self) -> int:
        """What the next one will take; nothing if it has gone away."""
        waiter = self._waiting.popleft()
        if waiter.future.done():
            return 0
        waiter.future.set_result(None)
        self._promised += waiter.wanted
        return waiter.wanted

    async def wait(self, partitions: list[Partition], seconds: float, wanted: int = 1, seeks: bool = False) -> None:
        """Wait until there may be something, at most so long."""
        waiter = _Waiter(0 if seeks else wanted)
        if seeks:
            self._seeking.append(waiter)
        else:
            self._waiting.append(waiter)
        for partition in partitions:
            partition.watchers[self] = None
        try:
            await asyncio.wait_for(waiter.future, seconds)
        except TimeoutError:
            pass
        except asyncio.CancelledError:
            if not seeks and _was_woken(waiter):
                self.wake(1)  # It was woken and went away: somebody else may have what it was woken for.
            raise
        finally:
            if _was_woken(waiter):
                self._promised -= waiter.wanted
            else:
                waiter.future.cancel()
            if seeks and waiter in self._seeking:
                self._seeking.remove(waiter)


def _was_woken(waiter: _Waiter) -> bool:
    return waiter.future.done() and not waiter.future.cancelled()

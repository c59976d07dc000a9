"""Receivers that wait for messages, in the order in which they came.

Those with a filter stand apart: they may have no use for what there is, so they never take the place of another.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import final

from longhall.broker.partition import Partition, Watcher


@final
class Waiters(Watcher):
    """Those who wait at one queue. Waking one that has gone away wakes the next instead."""

    def __init__(self) -> None:
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._seeking: list[asyncio.Future[None]] = []

    def __len__(self) -> int:
        return len(self._waiting) + len(self._seeking)

    def more(self, partition: Partition) -> None:
        """Something was committed to one of the queue's logs."""
        self.wake(len(self._waiting))

    def wake(self, count: int) -> None:
        """Let so many look again, and everybody who seeks something of their own."""
        seeking, self._seeking = self._seeking, []
        for seeker in seeking:
            if not seeker.done():
                seeker.set_result(None)
        while count > 0 and self._waiting:
            waiter = self._waiting.popleft()
            if not waiter.done():
                waiter.set_result(None)
                count -= 1

    async def wait(self, partitions: list[Partition], seconds: float, seeks: bool = False) -> None:
        """Wait until there may be something, at most so long."""
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        if seeks:
            self._seeking.append(waiter)
        else:
            self._waiting.append(waiter)
        for partition in partitions:
            partition.watchers[self] = None
        try:
            await asyncio.wait_for(waiter, seconds)
        except TimeoutError:
            pass
        except asyncio.CancelledError:
            if not seeks and waiter.done() and not waiter.cancelled():
                self.wake(1)  # It was woken and went away: somebody else may have what it was woken for.
            raise
        finally:
            if not waiter.done():
                waiter.cancel()
            if seeks and waiter in self._seeking:
                self._seeking.remove(waiter)

"""Waiting receivers of a queue (long polls), in the order of arrival.

Only as many receivers are woken as there are messages. The messages that a woken receiver will take are counted until
it has received, so that no other is woken for them. Receivers with a filter wait separately, because the available
messages may not match: they never take the turn of another.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Final, final

from longhall.broker.partition import Partition, Watcher

ALL_WAITERS: Final = 1 << 30


@final
class _Waiter:
    """One waiting receiver, for at most `wanted` messages."""

    __slots__ = ("future", "wanted")

    def __init__(self, wanted: int) -> None:
        self.future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.wanted = wanted


@final
class Waiters(Watcher):
    """The waiting receivers of one queue. A cancelled receiver passes its turn to the next."""

    def __init__(self, available: Callable[[], int]) -> None:
        """`available` returns the number of deliverable messages."""
        self._available = available
        self._waiting: deque[_Waiter] = deque()
        self._seeking: list[_Waiter] = []
        self._promised = 0  # Messages that woken receivers will take.

    def __len__(self) -> int:
        return len(self._waiting) + len(self._seeking)

    def more(self, partition: Partition) -> None:
        """Wake receivers after a commit to one of the queue's logs."""
        self.offer()
        if len(self):
            partition.watchers[self] = None

    def offer(self, count_max: int = ALL_WAITERS) -> None:
        """Wake as many receivers as there are messages, and all receivers with a filter."""
        self._wake_seekers()
        if self._waiting:
            left = self._available() - self._promised
            while left > 0 and count_max > 0 and self._waiting:
                taken = self._wake_next()
                left -= taken
                count_max -= 1 if taken else 0

    def wake(self, count: int) -> None:
        """Wake `count` receivers unconditionally, and all receivers with a filter."""
        self._wake_seekers()
        while count > 0 and self._waiting:
            count -= 1 if self._wake_next() else 0

    def _wake_seekers(self) -> None:
        seeking, self._seeking = self._seeking, []
        for seeker in seeking:
            if not seeker.future.done():
                seeker.future.set_result(None)

    def _wake_next(self) -> int:
        """Wake the next receiver; returns the messages it wants, 0 if it was cancelled."""
        waiter = self._waiting.popleft()
        if waiter.future.done():
            return 0
        waiter.future.set_result(None)
        self._promised += waiter.wanted
        return waiter.wanted

    async def wait(self, partitions: list[Partition], seconds: float, wanted: int = 1, seeks: bool = False) -> None:
        """Wait until messages may be available, at most `seconds`. With `seeks` the receiver has a filter."""
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
                self.wake(1)  # A woken receiver was cancelled: wake another.
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

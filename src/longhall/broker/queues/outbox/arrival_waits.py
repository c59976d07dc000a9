"""Senders that wait until their messages have arrived in queues of other groups.

A message in an outbox is durable, and no sender has to wait longer. It waits a moment nevertheless, so that a client
finds an accepted message in its queue at once, as in a queue of the same group.

    the messages have arrived, or went with their target          the wait ends
    the target has no room, or its group does not answer          all waits for the outbox end, and none begins until
    nothing has arrived for WAIT_S                                something arrives
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable
from typing import Final, final

WAIT_S: Final = 1.0


@final
class ArrivalWaits:
    """The waits for all outboxes of a group, by stream."""

    def __init__(self) -> None:
        self._waits: dict[int, deque[tuple[int, asyncio.Future[None]]]] = {}
        self._timers: dict[int, asyncio.TimerHandle] = {}
        self._late: set[int] = set()  # Outboxes that nobody waits for.
        self._reached: dict[int, int] = {}  # What has arrived of outboxes that are not empty.

    def wait(self, stream: int, behind: int) -> Awaitable[None] | None:
        """A wait for the messages below an offset; None if they will not arrive soon."""
        if stream in self._late or behind <= self._reached.get(stream, 0):
            return None
        loop = asyncio.get_running_loop()
        done: asyncio.Future[None] = loop.create_future()
        self._waits.setdefault(stream, deque()).append((behind, done))
        if stream not in self._timers:
            self._timers[stream] = loop.call_later(WAIT_S, self.give_up, stream)
        return done

    def reached(self, stream: int, offset: int) -> None:
        """The messages below this offset have arrived."""
        self._late.discard(stream)
        self._reached[stream] = offset
        waits = self._waits.get(stream)
        if waits is None or waits[0][0] > offset:
            return
        while waits and waits[0][0] <= offset:
            _end(waits.popleft()[1])
        self._timers.pop(stream).cancel()
        if waits:
            self._timers[stream] = asyncio.get_running_loop().call_later(WAIT_S, self.give_up, stream)
        else:
            del self._waits[stream]

    def give_up(self, stream: int) -> None:
        """The messages that wait will not arrive soon."""
        self._late.add(stream)
        self._end_all(stream)

    def forget(self, stream: int) -> None:
        """The outbox is empty, or is not delivered here any more."""
        self._late.discard(stream)
        self._reached.pop(stream, None)
        self._end_all(stream)

    def _end_all(self, stream: int) -> None:
        timer = self._timers.pop(stream, None)
        if timer is not None:
            timer.cancel()
        for _, done in self._waits.pop(stream, ()):
            _end(done)


def _end(done: asyncio.Future[None]) -> None:
    if not done.done():
        done.set_result(None)

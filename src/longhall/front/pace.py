"""The pace of one connection of a door that holds its clients back: AMQP and STOMP.

While the client is over a limit, the door does not read what it sends, and pushes no messages to it:

    a send, a settlement, a declaration   is carried out and charged; the connection is not read until the debt is paid
    a delivery                            is charged; there are no more deliveries until the debt is paid

A connection waits at most HELD_MS_MAX at a time and looks again then, because limits change and other clients pay too.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final, final

from longhall.cluster.rpc.operation import Caller
from longhall.directory.rate_limits import RECEIVE
from longhall.front.rate_limits import RateLimits

HELD_MS_MAX: Final = 5_000


@final
class ConnectionPace:
    """The reasons to read no requests from one connection, and to push no messages to it. The door asks `reads_held`
    and `pushes_held`.
    """

    def __init__(
        self,
        limits: RateLimits,
        door: str,
        loop: asyncio.AbstractEventLoop,
        resume_reads: Callable[[], None],
        resume_pushes: Callable[[], None],
    ) -> None:
        """`resume_reads` and `resume_pushes` are called when the client is within its limits again."""
        self.limits = limits
        self.reads_held = False
        self.pushes_held = False
        self._door = door
        self._loop = loop
        self._resume_reads = resume_reads
        self._resume_pushes = resume_pushes
        self._timers: dict[str, asyncio.TimerHandle] = {}  # By class of operation.
        self._receivers: list[asyncio.Future[None]] = []  # Requests for a message that wait.

    def charge(
        self, caller: Caller, operation: str, queue: str, *, size_bytes: int = 0, messages: int = 0, requests: int = 1
    ) -> None:
        """Charge what was granted, and hold the connection back if that is too much. Call it if `limits.active`."""
        self.limits.charge(caller, operation, queue, size_bytes=size_bytes, messages=messages, requests=requests)
        debt_ms = self.limits.debt_ms(caller, operation, queue)
        if debt_ms:
            self._hold(caller, operation, queue, debt_ms)

    async def may_receive(self) -> None:
        """Wait until the client may have another message that it asks for."""
        while self.pushes_held:
            waiting: asyncio.Future[None] = self._loop.create_future()
            self._receivers.append(waiting)
            try:
                await waiting
            finally:
                self._receivers.remove(waiting)

    def close(self) -> None:
        """The connection is gone."""
        for timer in self._timers.values():
            timer.cancel()
        self._timers.clear()

    def _hold(self, caller: Caller, operation: str, queue: str, debt_ms: int) -> None:
        held = self._timers.get(operation)
        until_s = self._loop.time() + min(debt_ms, HELD_MS_MAX) / 1000
        if held is None:
            self.limits.note_throttled(self._door, operation)
        elif held.when() >= until_s:
            return
        else:
            held.cancel()
        self._timers[operation] = self._loop.call_at(until_s, self._look, caller, operation, queue)
        self._set_held()

    def _look(self, caller: Caller, operation: str, queue: str) -> None:
        """The time is over: go on, or wait again."""
        del self._timers[operation]
        debt_ms = self.limits.debt_ms(caller, operation, queue) if self.limits.active else 0
        if debt_ms:
            self._hold(caller, operation, queue, debt_ms)
            return
        reads_held, pushes_held = self.reads_held, self.pushes_held
        self._set_held()
        if reads_held and not self.reads_held:
            self._resume_reads()
        if pushes_held and not self.pushes_held:
            for waiting in self._receivers:
                if not waiting.done():
                    waiting.set_result(None)
            self._resume_pushes()

    def _set_held(self) -> None:
        self.pushes_held = RECEIVE in self._timers
        self.reads_held = len(self._timers) > self.pushes_held

"""The guard of a key provider: a deadline for each call, a bounded pool, and a circuit breaker.

    closed      calls pass; FAILURES_MAX calls in a row without an answer open the breaker
    open        calls fail at once with KEY_UNAVAILABLE, until the pause is over
    half open   one call passes: an answer closes the breaker, its failure doubles the pause

A refusal of the provider (a disabled key, for example) is an answer. So a key service that hangs costs only requests
that need one of its keys, each at most one deadline, and its return is noticed by the first call after the pause.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, Final, TypeVar, final

from longhall.errors import Code, LonghallError
from longhall.front.keys.provider import DataKey, KeyContext, KeyProvider, checked

DEADLINE_S: Final = 3.0
CALLS_MAX: Final = 8  # Under way at a time,
WAITING_MAX: Final = 256  # and those that wait for their turn.
FAILURES_MAX: Final = 5
PAUSE_S_MIN: Final = 0.5
PAUSE_S_MAX: Final = 15.0

R = TypeVar("R")


@final
class CircuitBreaker:
    """The circuit breaker of a provider: it lets calls pass, or not. Times are seconds of a monotonic clock."""

    def __init__(self, now_s: Callable[[], float]) -> None:
        self._now_s = now_s
        self._failures = 0
        self._pause_s = PAUSE_S_MIN
        self._closed_at_s: float | None = None  # When a trial may pass; None: closed.
        self._is_trying = False

    @property
    def is_open(self) -> bool:
        """True while no call may pass."""
        return self._closed_at_s is not None and (self._is_trying or self._now_s() < self._closed_at_s)

    def begin(self) -> bool:
        """Begin a call; False if it may not pass."""
        if self.is_open:
            return False
        self._is_trying = self._closed_at_s is not None
        return True

    def succeeded(self) -> None:
        """A call was answered."""
        self._failures = 0
        self._pause_s = PAUSE_S_MIN
        self._closed_at_s = None
        self._is_trying = False

    def failed(self) -> None:
        """A call was not answered."""
        self._failures += 1
        if self._is_trying:
            self._pause_s = min(self._pause_s * 2, PAUSE_S_MAX)
        if self._is_trying or self._failures >= FAILURES_MAX:
            self._closed_at_s = self._now_s() + self._pause_s
        self._is_trying = False

    def abandoned(self) -> None:
        """The caller of a call went away before it was answered."""
        self._is_trying = False


@final
class GuardedProvider:
    """A provider whose calls end in bounded time, and are bounded in number."""

    def __init__(
        self,
        name: str,
        provider: KeyProvider,
        now_s: Callable[[], float],
        deadline_s: float = DEADLINE_S,
        calls_max: int = CALLS_MAX,
    ) -> None:
        self.name = name
        self.breaker = CircuitBreaker(now_s)
        self._provider = provider
        self._deadline_s = deadline_s
        self._slots = asyncio.Semaphore(calls_max)
        self._waiting = 0

    async def generate(self, key_id: str, context: KeyContext) -> DataKey:
        return checked(await self._call(self._provider.generate(key_id, context)))

    async def unwrap(self, key_id: str, wrapped: bytes, context: KeyContext) -> bytes:
        clear = await self._call(self._provider.unwrap(key_id, wrapped, context))
        return checked(DataKey(clear, wrapped)).clear

    async def rewrap(self, key_id: str, wrapped: bytes, context: KeyContext) -> bytes:
        return await self._call(self._provider.rewrap(key_id, wrapped, context))

    async def _call(self, work: Coroutine[Any, Any, R]) -> R:
        if self.breaker.is_open or self._waiting >= WAITING_MAX:
            work.close()
            why = "does not answer" if self.breaker.is_open else "has too many calls under way"
            raise LonghallError(Code.KEY_UNAVAILABLE, f"the key provider '{self.name}' {why}; try again later")
        self._waiting += 1
        try:
            async with asyncio.timeout(self._deadline_s) as limit:
                return await self._in_turn(work, limit)
        except TimeoutError:
            work.close()  # No effect if it has begun.
            raise LonghallError(
                Code.KEY_UNAVAILABLE, f"the key provider '{self.name}' did not answer within {self._deadline_s:g} s"
            ) from None
        finally:
            self._waiting -= 1

    async def _in_turn(self, work: Coroutine[Any, Any, R], limit: asyncio.Timeout) -> R:
        async with self._slots:
            if not self.breaker.begin():
                work.close()
                raise LonghallError(
                    Code.KEY_UNAVAILABLE, f"the key provider '{self.name}' does not answer; try again later"
                )
            try:
                answer = await work
            except asyncio.CancelledError:
                if limit.expired():  # Otherwise the caller went away, which is not the provider's fault.
                    self.breaker.failed()
                else:
                    self.breaker.abandoned()
                raise
            except LonghallError as error:
                if error.code is Code.KEY_UNAVAILABLE:
                    self.breaker.failed()
                else:
                    self.breaker.succeeded()
                raise
            self.breaker.succeeded()
            return answer

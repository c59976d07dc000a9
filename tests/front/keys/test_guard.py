"""The guard of key providers: deadlines, the pool and the circuit breaker."""

from __future__ import annotations

import asyncio

import pytest

from longhall.errors import Code, LonghallError
from longhall.front.keys.guard import FAILURES_MAX, PAUSE_S_MAX, PAUSE_S_MIN, CircuitBreaker, GuardedProvider
from longhall.front.keys.provider import DataKey, KeyContext


class Clock:
    now_s = 100.0

    def __call__(self) -> float:
        return self.now_s


class Provider:
    """Answers, refuses or hangs, as the test says."""

    def __init__(self) -> None:
        self.open = asyncio.Event()
        self.error: LonghallError | None = None
        self.under_way = 0
        self.most = 0
        self.calls = 0

    async def generate(self, key_id: str, context: KeyContext) -> DataKey:
        self.calls += 1
        self.under_way += 1
        self.most = max(self.most, self.under_way)
        try:
            await self.open.wait()
        finally:
            self.under_way -= 1
        if self.error is not None:
            raise self.error
        return DataKey(bytes(32), b"wrapped")

    async def unwrap(self, key_id: str, wrapped: bytes, context: KeyContext) -> bytes:
        return b"too short"

    async def rewrap(self, key_id: str, wrapped: bytes, context: KeyContext) -> bytes:
        return wrapped


def test_the_states_of_the_breaker() -> None:
    clock = Clock()
    breaker = CircuitBreaker(clock)
    for _ in range(FAILURES_MAX - 1):
        assert breaker.begin()
        breaker.failed()
    assert breaker.begin()
    breaker.succeeded()
    for _ in range(FAILURES_MAX):
        assert breaker.begin(), "failures count in a row"
        breaker.failed()
    pause_s = PAUSE_S_MIN
    for _ in range(10):
        assert not breaker.begin()
        clock.now_s += pause_s
        assert breaker.begin()
        assert not breaker.begin(), "one trial at a time"
        breaker.failed()
        pause_s = min(pause_s * 2, PAUSE_S_MAX)
    clock.now_s += pause_s
    assert breaker.begin()
    breaker.abandoned()
    assert breaker.begin(), "the next caller tries in its place"
    breaker.succeeded()
    assert breaker.begin()
    assert breaker.begin()


async def test_a_provider_that_hangs_is_given_up_and_found_again() -> None:
    clock, provider = Clock(), Provider()
    guarded = GuardedProvider("kms", provider, clock, deadline_s=0.02, calls_max=2)
    for _ in range(FAILURES_MAX):
        with pytest.raises(LonghallError, match="did not answer within") as caught:
            await guarded.generate("k", {})
        assert caught.value.code is Code.KEY_UNAVAILABLE
    asked = provider.calls
    with pytest.raises(LonghallError, match="does not answer"):
        await guarded.generate("k", {})
    assert provider.calls == asked, "nothing waits while the breaker is open"
    provider.open.set()
    clock.now_s += PAUSE_S_MIN
    assert (await guarded.generate("k", {})).wrapped == b"wrapped"
    assert (await guarded.generate("k", {})).wrapped == b"wrapped"


async def test_the_pool_is_bounded() -> None:
    provider = Provider()
    guarded = GuardedProvider("kms", provider, Clock(), deadline_s=5, calls_max=2)
    calls = [asyncio.create_task(guarded.generate("k", {})) for _ in range(20)]
    await asyncio.sleep(0.01)
    provider.open.set()
    await asyncio.gather(*calls)
    assert provider.most == 2


async def test_a_refusal_is_an_answer_and_a_caller_that_leaves_no_failure() -> None:
    clock, provider = Clock(), Provider()
    guarded = GuardedProvider("kms", provider, clock, deadline_s=5)
    for _ in range(2 * FAILURES_MAX):
        call = asyncio.create_task(guarded.generate("k", {}))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
    provider.open.set()
    provider.error = LonghallError(Code.KEY_DISABLED, "disabled")
    for _ in range(2 * FAILURES_MAX):
        with pytest.raises(LonghallError) as caught:
            await guarded.generate("k", {})
        assert caught.value.code is Code.KEY_DISABLED
    provider.error = None
    assert (await guarded.generate("k", {})).clear == bytes(32)


async def test_a_key_of_a_wrong_size_is_refused() -> None:
    guarded = GuardedProvider("kms", Provider(), Clock())
    with pytest.raises(LonghallError) as caught:
        await guarded.unwrap("k", b"wrapped", {})
    assert caught.value.code is Code.KEY_INVALID_STATE

"""A sender waits a moment for the arrival of its messages, and never for those that do not arrive."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable

from longhall.broker.queues.outbox import arrival_waits
from longhall.broker.queues.outbox.arrival_waits import ArrivalWaits

STREAM = 7


async def is_done(wait: Awaitable[None] | None) -> bool:
    assert wait is not None
    await asyncio.sleep(0)
    return asyncio.ensure_future(wait).done()


async def test_a_wait_ends_with_the_arrival_of_its_messages() -> None:
    waits = ArrivalWaits()
    first, second = waits.wait(STREAM, 3), waits.wait(STREAM, 5)
    waits.reached(STREAM, 4)
    assert await is_done(first)
    assert not await is_done(second)
    assert waits.wait(STREAM, 4) is None, "they have arrived already"
    waits.reached(STREAM, 5)
    assert await is_done(second)


async def test_nobody_waits_for_messages_that_do_not_arrive_until_some_do() -> None:
    waits = ArrivalWaits()
    first = waits.wait(STREAM, 1)
    waits.give_up(STREAM)
    assert await is_done(first)
    assert waits.wait(STREAM, 2) is None
    waits.reached(STREAM, 1)
    assert not await is_done(waits.wait(STREAM, 2))
    waits.forget(STREAM)


async def test_a_wait_has_a_bound() -> None:
    waits = ArrivalWaits()
    wait = waits.wait(STREAM, 1)
    assert wait is not None
    async with asyncio.timeout(60 * arrival_waits.WAIT_S):
        await wait
    assert waits.wait(STREAM, 1) is None

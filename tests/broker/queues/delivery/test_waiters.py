"""Receivers that wait: each is woken when there is something for it, and by nothing else."""

from __future__ import annotations

import asyncio

from longhall.broker.queues.delivery.waiters import Waiters
from longhall.queues.messages import Delivery
from longhall.queues.settings import QueueSettings, RetryPolicy
from tests.broker.queues.rig import Queues, Rig


def poll(queues: Queues, count: int, wait_ms: int = 20_000) -> asyncio.Task[list[Delivery]]:
    return asyncio.ensure_future(queues.desk.receive("q", count, wait_ms, 30_000, ""))


def bodies(found: list[Delivery]) -> list[bytes]:
    return [one.body for one in found]


def test_only_as_many_receivers_wake_as_there_are_messages() -> None:
    rig = Rig()

    async def play(queues: Queues) -> None:
        await queues.desk.create("q", QueueSettings())
        polls = [poll(queues, 2) for _ in range(5)]
        await asyncio.sleep(0.1)
        await queues.send("q", "a", "b", "c")
        await asyncio.sleep(0.1)
        assert [one.done() for one in polls] == [True, True, False, False, False]
        assert bodies(await polls[0]) + bodies(await polls[1]) == [b"a", b"b", b"c"]
        await queues.send("q", "d")
        assert bodies(await polls[2]) == [b"d"]
        for left in polls[3:]:
            left.cancel()

    rig.live(play)


def test_a_cancelled_receiver_passes_its_turn_on() -> None:
    rig = Rig()

    async def play(queues: Queues) -> None:
        await queues.desk.create("q", QueueSettings())
        polls = [poll(queues, 1) for _ in range(3)]
        await asyncio.sleep(0.1)
        polls[0].cancel()
        await queues.send("q", "a")
        assert bodies(await polls[1]) == [b"a"]
        assert not polls[2].done()
        polls[2].cancel()

    rig.live(play)


def test_the_end_of_a_lease_or_retry_delay_wakes_receivers() -> None:
    rig = Rig()

    async def play(queues: Queues) -> None:
        loop = asyncio.get_running_loop()
        await queues.desk.create("q", QueueSettings(retry=RetryPolicy(first_ms=2_000)))
        await queues.send("q", "a", "b")
        await queues.receive("q", 1, 5_000)
        (given_back,) = await queues.receive("q", 1, 60_000)
        first, second = poll(queues, 1), poll(queues, 1)
        await asyncio.sleep(0.1)
        began_s = loop.time()
        await queues.desk.change_lease("q", [(given_back.receipt, 0)])
        assert bodies(await first) == [b"b"]
        assert 1.9 < loop.time() - began_s < 2.1
        assert bodies(await second) == [b"a"]
        assert 4.7 < loop.time() - began_s < 5.1

    rig.live(play)


def test_the_end_of_a_later_lease_wakes_waiting_receivers() -> None:
    rig = Rig()

    async def play(queues: Queues) -> None:
        loop = asyncio.get_running_loop()
        await queues.desk.create("q", QueueSettings())
        waiting = poll(queues, 1)
        other = asyncio.ensure_future(queues.desk.receive("q", 1, 20_000, 3_000, ""))
        await asyncio.sleep(0.1)
        began_s = loop.time()
        await queues.send("q", "a")
        assert bodies(await waiting) == [b"a"]
        waiting = poll(queues, 1)
        await asyncio.sleep(0.1)
        await queues.send("q", "b")
        assert bodies(await other) == [b"b"]
        assert bodies(await waiting) == [b"b"]
        assert loop.time() - began_s < 3.5

    rig.live(play)


def test_messages_are_promised_to_one_receiver() -> None:
    async def play() -> None:
        waiters = Waiters(lambda: 1)
        tasks = [asyncio.ensure_future(waiters.wait([], 5.0)) for _ in range(3)]
        await asyncio.sleep(0)
        waiters.offer()
        waiters.offer()
        assert len(waiters) == 2
        await asyncio.sleep(0.01)
        assert [task.done() for task in tasks] == [True, False, False]
        waiters.offer()
        assert len(waiters) == 1
        waiters.wake(1)
        await asyncio.gather(*tasks)

    asyncio.run(play())

"""Weighted service over several queues."""

from __future__ import annotations

import asyncio
from collections import Counter

from longhall.broker.queues.delivery.receive_any import WeightedWish
from longhall.errors import Code
from longhall.queues.settings import QueueSettings
from tests.broker.queues.rig import Queues, Rig

WEIGHTS = {"high": 5, "middle": 2, "low": 1}


async def fill(queues: Queues, count: int) -> None:
    for name in WEIGHTS:
        await queues.desk.create(name, QueueSettings())
        await queues.send(name, *(f"{name} {number}" for number in range(count)))


def test_deliveries_follow_the_weights_and_none_starves() -> None:
    async def play(queues: Queues) -> None:
        await fill(queues, 80)
        served: Counter[str] = Counter()
        for _ in range(20):
            found = await queues.desk.receive_any(WEIGHTS, WeightedWish(4, 0, 30_000))
            assert len(found) == 4
            for name, delivery in found:
                assert delivery.body.decode().startswith(name)
                assert await queues.desk.settle(name, [delivery.receipt]) == [None]
                served[name] += 1
        assert served == {"high": 50, "middle": 20, "low": 10}

    Rig().live(play)


def test_an_empty_queue_leaves_its_share_to_the_others() -> None:
    async def play(queues: Queues) -> None:
        await fill(queues, 3)
        await queues.desk.switch("high", True)
        found = await queues.desk.receive_any(WEIGHTS, WeightedWish(10, 0, 30_000))
        assert Counter(name for name, _ in found) == {"middle": 3, "low": 3}
        await queues.desk.switch("high", False)
        assert len(await queues.desk.receive_any(WEIGHTS, WeightedWish(10, 0, 30_000))) == 3
        assert await queues.desk.receive_any(WEIGHTS, WeightedWish(10, 0, 30_000)) == []

    Rig().live(play)


def test_a_wait_covers_all_queues_and_takes_no_turn() -> None:
    async def play(queues: Queues) -> None:
        await fill(queues, 0)
        waiting = asyncio.ensure_future(queues.desk.receive_any(WEIGHTS, WeightedWish(1, 20_000, 30_000)))
        await asyncio.sleep(1)
        await queues.send("low", "late")
        ((name, delivery),) = await waiting
        assert (name, delivery.body) == ("low", b"late")
        assert await queues.desk.receive_any(WEIGHTS, WeightedWish(1, 5_000, 30_000)) == []

    Rig().live(play)


def test_what_is_wrong_is_refused() -> None:
    async def play(queues: Queues) -> None:
        await fill(queues, 1)
        desk = queues.desk
        assert await queues.refused(desk.receive_any({}, WeightedWish(1, 0, 0))) is Code.INVALID_REQUEST
        assert await queues.refused(desk.receive_any({"high": 0}, WeightedWish(1, 0, 0))) is Code.INVALID_REQUEST
        assert (
            await queues.refused(desk.receive_any({"high": 1, "none": 1}, WeightedWish(1, 0, 0))) is Code.UNKNOWN_QUEUE
        )

    Rig().live(play)

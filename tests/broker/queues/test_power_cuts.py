"""Priorities, filters, delays, rewinds and forks while the power goes: nothing lost, nothing back after its settle."""

from __future__ import annotations

import asyncio
import random

import pytest

from longhall.broker.checkpoint import checkpoint
from longhall.errors import LonghallError
from longhall.queues.settings import QueueSettings
from tests.broker.queues.rig import KEEP, Queues, Rig

CITIES = ("Oslo", "Rome", "Bern")


class Consumer:
    """Sends, receives and settles at random, and remembers what it was told."""

    def __init__(self, rig: Rig, seed: int) -> None:
        self.rig = rig
        self.dice = random.Random(seed)
        self.acknowledged: set[str] = set()
        self.settled: set[str] = set()
        self.perhaps: set[str] = set()  # A settle was under way when the power went.
        self.number = 0

    async def work(self, queues: Queues) -> None:
        dice = self.dice
        self.rig.host.simulation.loop.call_later(dice.uniform(0.01, 1.5), self.rig.host.host.cut_power)
        while True:
            if dice.random() < 0.5:
                await self.send(queues)
            elif dice.random() < 0.05:
                await checkpoint(queues.life.hall)
            else:
                await self.take(queues)
            await asyncio.sleep(dice.uniform(0, 0.005))

    async def send(self, queues: Queues) -> None:
        dice = self.dice
        bodies = [str(self.number + at) for at in range(dice.randint(1, 4))]
        self.number += len(bodies)
        how = {"priority": dice.randint(0, 4), "delay_ms": dice.choice([0, 0, 1, 40])}
        await queues.send("q", *bodies, attributes={"city": dice.choice(CITIES)}, **how)
        self.acknowledged.update(bodies)

    async def take(self, queues: Queues) -> None:
        dice = self.dice
        filter = "" if dice.random() < 0.5 else f"city = '{dice.choice(CITIES)}'"
        for delivery in await queues.receive("q", dice.randint(1, 5), dice.choice([50, 2000]), filter):
            body = delivery.body.decode()
            assert body not in self.settled, f"{body} came back"
            if dice.random() < 0.3:
                await queues.desk.change_lease("q", [(delivery.receipt, 0)])
            elif dice.random() < 0.8:
                self.perhaps.add(body)
                if (await queues.desk.settle("q", [delivery.receipt]))[0] is None:
                    self.settled.add(body)


@pytest.mark.parametrize("seed", range(8))
def test_nothing_is_lost_and_settled_messages_stay_settled(seed: int) -> None:
    rig = Rig(seed, cold=0.1)
    consumer = Consumer(rig, seed)

    async def make(queues: Queues) -> None:
        await queues.desk.create("q", QueueSettings(priorities=3, messages_max=100_000))

    async def look(queues: Queues) -> None:
        await asyncio.sleep(10)
        found = await queues.drain("q")
        assert len(found) == len(set(found))
        assert not consumer.settled & set(found)
        assert consumer.acknowledged - consumer.perhaps <= set(found)
        assert queues.desk.depth("q").available == 0

    rig.live(make)
    for _ in range(5):
        rig.live(consumer.work)
    assert consumer.acknowledged
    rig.live(look)


@pytest.mark.parametrize("seed", range(6))
def test_rewinds_and_forks_are_atomic(seed: int) -> None:
    rig = Rig(seed)
    dice = random.Random(seed)
    sent = [f"{number:02}" for number in range(40)]
    done: list[str] = []

    async def make(queues: Queues) -> None:
        await queues.desk.create("q", KEEP)
        await queues.send("q", *sent)
        assert await queues.drain("q") == sent

    async def again(queues: Queues) -> None:
        rig.host.simulation.loop.call_later(dice.uniform(0.0005, 0.03), rig.host.host.cut_power)
        await queues.desk.fork("q", "f")
        done.append("forked")
        await queues.desk.rewind("q", "start")
        done.append("rewound")
        await asyncio.sleep(60)

    async def look(queues: Queues) -> None:
        found = await queues.drain("q")
        assert found == sent or (found == [] and "rewound" not in done)
        try:
            assert await queues.drain("f") == sent
        except LonghallError:
            assert "forked" not in done

    rig.live(make)
    rig.live(again)
    rig.live(look)

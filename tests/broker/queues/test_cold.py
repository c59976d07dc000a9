"""Messages that are not in memory: many who want the same wait for one read of the disk."""

from __future__ import annotations

import asyncio
from typing import Any

from longhall.queues.settings import QueueSettings
from longhall.world.ports import File
from tests.broker.queues.rig import Queues, Rig

RECEIVERS = 8


def test_receivers_share_one_read_of_cold_data() -> None:
    rig = Rig(cold=1.0)
    reads: list[int] = []

    async def play(queues: Queues) -> None:
        hall = queues.life.hall
        await queues.desk.create("deep", QueueSettings())
        await queues.send("deep", *(str(number) for number in range(RECEIVERS)))
        for partition in list(hall.tails.values()):
            assert hall.flush_tail(partition)
        janitor: Any = hall.world.janitor
        read = janitor.read

        async def counted(file: File, position: int, size: int) -> bytes:
            reads.append(position)
            found: bytes = await read(file, position, size)
            return found

        janitor.read = counted
        got = await asyncio.gather(*(queues.bodies("deep", 1) for _ in range(RECEIVERS)))
        assert sorted(body for bodies in got for body in bodies) == [str(number) for number in range(RECEIVERS)]

    rig.live(play)
    assert len(reads) == 1


def test_a_cancelled_read_is_taken_over_by_another_receiver() -> None:
    rig = Rig(cold=1.0)

    async def play(queues: Queues) -> None:
        hall = queues.life.hall
        await queues.desk.create("deep", QueueSettings())
        await queues.send("deep", "a", "b")
        for partition in list(hall.tails.values()):
            assert hall.flush_tail(partition)
        first = asyncio.create_task(queues.bodies("deep", 1))
        await asyncio.sleep(0)
        second = asyncio.create_task(queues.bodies("deep", 1))
        await asyncio.sleep(0)
        first.cancel()
        assert await second == ["a"]

    rig.live(play)

"""How full a queue is and how long its oldest message has waited: right at once, and never by waiting for the disk."""

from __future__ import annotations

import asyncio

from longhall.broker.checkpoint import checkpoint
from longhall.queues.settings import QueueSettings
from tests.broker.queues.rig import Queues, Rig


async def age_s(queues: Queues, name: str = "q") -> int:
    """In whole seconds; a sync takes some milliseconds."""
    return queues.desk.depth(name).oldest_age_ms // 1000


def test_the_age_is_that_of_the_oldest_deliverable_message() -> None:
    async def play(queues: Queues) -> None:
        await queues.desk.create("q", QueueSettings())
        assert await age_s(queues) == 0
        await queues.send("q", "a")
        await asyncio.sleep(100)
        await queues.send("q", "b")
        assert await age_s(queues) == 100
        (first,) = await queues.receive("q", 1, lease_ms=60_000)
        await asyncio.sleep(10)
        assert await age_s(queues) == 10, "the older one is leased"
        await queues.desk.change_lease("q", [(first.receipt, 0)])
        assert await age_s(queues) == 110, "and was given back"
        await queues.drain("q")
        assert await age_s(queues) == 0

    Rig().live(play)


def test_a_delayed_message_ages_from_its_due_time() -> None:
    async def play(queues: Queues) -> None:
        await queues.desk.create("q", QueueSettings())
        await queues.send("q", "later", delay_ms=50_000)
        await asyncio.sleep(40)
        assert await age_s(queues) == 0
        await asyncio.sleep(20)
        assert await age_s(queues) in (9, 10)

    Rig().live(play)


def test_the_age_is_known_after_a_restart_and_without_the_disk() -> None:
    rig = Rig()

    async def fill(queues: Queues) -> None:
        await queues.desk.create("q", QueueSettings())
        for at in range(40):
            await queues.send("q", f"{at:02d}" * 2000)
            await asyncio.sleep(10)
        await checkpoint(queues.life.hall)
        assert await age_s(queues) == 400

    async def look(queues: Queues) -> None:
        assert 400 <= await age_s(queues) <= 402
        await asyncio.sleep(100)
        assert 500 <= await age_s(queues) <= 502

    async def look_cold(queues: Queues) -> None:
        # Whatever would have to be read from the disk is guessed from the segments: never too young.
        assert await age_s(queues) >= 500

    rig.live(fill)
    rig.live(look)
    rig.host.host.faults.cold_read_chance = 1.0
    rig.live(look_cold)


def test_durable_counters_survive_a_restart() -> None:
    rig = Rig()

    async def play(queues: Queues) -> None:
        await queues.desk.create("q", QueueSettings())
        await queues.send("q", "a", "b")
        (slow,) = await queues.receive("q", 1, lease_ms=1000)
        await asyncio.sleep(5)
        await queues.desk.settle("q", [slow.receipt])
        counts = queues.desk.counts("q")
        assert (counts.sends, counts.deliveries, counts.outlived) == (2, 1, 1)
        assert counts.safe_lease_ms >= 5000

    async def look(queues: Queues) -> None:
        counts = queues.desk.counts("q")
        assert (counts.sends, counts.deliveries, counts.outlived) == (0, 1, 1)
        await queues.send("q", "c", delay_ms=1000)
        await asyncio.sleep(10)
        assert queues.desk.counts("q").sends == 1, "becoming due is no send"

    rig.live(play)
    rig.live(look)

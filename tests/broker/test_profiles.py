"""Profiles: one word decides how the broker gathers messages for readers and receivers that can wait."""

from __future__ import annotations

import asyncio

import pytest

from longhall.broker.fetch import Fetch, PartitionFetch
from longhall.broker.topic_administration import configure_topic, create_topic
from longhall.errors import Code
from longhall.queues.settings import QueueSettings
from longhall.records.profiles import PROFILES, batching_of
from tests.broker.desk import Desk, Life, batch_of
from tests.broker.queues.rig import Queues, Rig

MESSAGES = 40


async def replies_of(life: Life, bytes_min: int = 1) -> int:
    """How many replies a reader gets who reads along while messages are sent one by one."""
    partition = life.partition("t")
    start = partition.high_watermark

    async def write() -> None:
        for _ in range(MESSAGES):
            await life.send(partition, batch_of(b"x" * 100))
            await asyncio.sleep(0.002)

    writing = asyncio.ensure_future(write())
    replies, offset = 0, start
    while offset < start + MESSAGES:
        done: asyncio.Future[Fetch] = asyncio.get_running_loop().create_future()
        wanted = [PartitionFetch(partition, offset, 1 << 20, -1)]
        Fetch(life.hall, wanted, bytes_min, 1 << 20, 10_000, False, done.set_result).start()
        found = await done
        offset += sum(bytes(buffer).count(b"x" * 100) for buffer in found.wanted[0].buffers)
        replies += 1
    await writing
    assert not partition.watchers
    return replies


def test_the_profile_decides_how_many_batches_a_reader_gets() -> None:
    async def play(life: Life) -> None:
        await create_topic(life.hall, "t", 1, {"longhall.profile": "latency"})
        quick = await replies_of(life)
        await configure_topic(life.hall, "t", {"longhall.profile": "throughput"})
        gathered = await replies_of(life)
        assert quick >= MESSAGES // 2
        assert gathered <= MESSAGES // 8

    Desk().live(play)


def test_each_part_of_a_profile_can_be_tuned() -> None:
    async def play(life: Life) -> None:
        await create_topic(life.hall, "t", 1, {"longhall.profile": "throughput", "longhall.gather.ms": "0"})
        assert await replies_of(life) >= MESSAGES // 2
        await configure_topic(life.hall, "t", {"longhall.gather.bytes": "2000", "longhall.gather.ms": "5000"})
        assert 2 <= await asyncio.wait_for(_enough(life), 60) <= MESSAGES // 4

    async def _enough(life: Life) -> int:
        return await replies_of(life)

    Desk().live(play)
    assert batching_of({"longhall.profile": "latency", "longhall.producer.linger.ms": "7"}).linger_ms == 7
    assert batching_of({}) == PROFILES["balanced"]


def test_a_reader_that_does_not_wait_is_answered_at_once() -> None:
    async def play(life: Life) -> None:
        await create_topic(life.hall, "t", 1, {"longhall.profile": "throughput"})
        await life.send(life.partition("t"), batch_of(b"x"))
        done: list[Fetch] = []
        Fetch(
            life.hall, [PartitionFetch(life.partition("t"), 0, 1 << 20, -1)], 1, 1 << 20, 0, False, done.append
        ).start()
        assert done[0].size_bytes > 0

    Desk().live(play)


@pytest.mark.parametrize(("profile", "fewer"), [("latency", False), ("throughput", True)])
def test_receivers_of_a_throughput_queue_get_more_at_once(profile: str, fewer: bool) -> None:
    async def play(queues: Queues) -> None:
        await queues.desk.create("q", QueueSettings(profile=profile))  # type: ignore[arg-type]

        async def write() -> None:
            for number in range(MESSAGES):
                await queues.send("q", str(number))
                await asyncio.sleep(0.002)

        writing = asyncio.ensure_future(write())
        got: list[str] = []
        replies = 0
        while len(got) < MESSAGES:
            found = await queues.desk.receive("q", 10, 5_000, 30_000)
            got += [one.body.decode() for one in found]
            replies += 1
        await writing
        assert got == [str(number) for number in range(MESSAGES)]
        assert (replies <= MESSAGES // 4) is fewer

    Rig().live(play)


def test_a_queue_over_a_topic_has_the_profile_of_the_topic() -> None:
    async def play(queues: Queues) -> None:
        await create_topic(queues.life.hall, "t", 1, {})
        declared = queues.desk.declare("over", "t", QueueSettings(profile="throughput"))
        assert await queues.refused(declared) is Code.INVALID_CONFIGURATION
        await queues.desk.create("q", QueueSettings(profile="throughput"))
        assert queues.life.partition("q").options.gather_ms > 0
        await queues.desk.configure("q", QueueSettings())
        assert queues.life.partition("q").options.gather_ms == 0

    Rig().live(play)

"""Topics: replies follow the commit, and refusals have a reason."""

from __future__ import annotations

import asyncio

import pytest

from longhall.broker.topic_administration import (
    HIGH_WATERMARK,
    add_partitions,
    configure_topic,
    create_topic,
    delete_topic,
    trim_log,
)
from longhall.errors import Code, LonghallError
from longhall.topics.effects import CommitRequest
from tests.broker.desk import Desk, Life, batch_of


def test_invalid_requests_are_refused_with_a_reason() -> None:
    desk = Desk()

    async def play(life: Life) -> None:
        hall = life.hall
        await create_topic(hall, "t", 2, {})
        cases = [
            (create_topic(hall, "t", 1, {}), Code.TOPIC_EXISTS),
            (create_topic(hall, "not legal", 1, {}), Code.INVALID_NAME),
            (create_topic(hall, "zero", 0, {}), Code.INVALID_PARTITION_COUNT),
            (create_topic(hall, "many", 10_000_000, {}), Code.INVALID_PARTITION_COUNT),
            (create_topic(hall, "odd", 1, {"no.such": "x"}), Code.INVALID_CONFIGURATION),
            (create_topic(hall, "odd", 1, {"retention.ms": "soon"}), Code.INVALID_CONFIGURATION),
            (delete_topic(hall, "none"), Code.UNKNOWN_TOPIC),
            (add_partitions(hall, "t", 2), Code.INVALID_PARTITION_COUNT),
            (add_partitions(hall, "none", 2), Code.UNKNOWN_TOPIC),
            (configure_topic(hall, "t", {"segment.bytes": "1"}), Code.INVALID_CONFIGURATION),
            (trim_log(hall, life.partition("t"), 1), Code.OFFSET_OUT_OF_RANGE),
            (trim_log(hall, life.partition("t"), -2), Code.OFFSET_OUT_OF_RANGE),
        ]
        for coroutine, code in cases:
            with pytest.raises(LonghallError) as caught:
                await coroutine
            assert caught.value.code is code
            assert str(caught.value)
        assert set(hall.routes) == {"t"}

    desk.live(play)


def test_trimming_a_log_completely_moves_its_start_to_the_end() -> None:
    desk = Desk()

    async def play(life: Life) -> None:
        await create_topic(life.hall, "t", 1, {})
        for _ in range(3):
            await life.send(life.partition("t"), batch_of(b"x"))
        assert await trim_log(life.hall, life.partition("t"), HIGH_WATERMARK) == 3
        assert await trim_log(life.hall, life.partition("t"), 1) == 3
        assert (await life.send(life.partition("t"), batch_of(b"y"))).base_offset == 3

    desk.live(play)


def test_a_wait_forces_the_sync_of_weak_topics() -> None:
    """Without other syncs, the wait for a commit must start one."""
    desk = Desk()

    async def play(life: Life) -> None:
        hall = life.hall
        await create_topic(hall, "weak", 2, {"longhall.durability": "none"})
        for number in range(2):
            await life.send(life.partition("weak", number), batch_of(b"x"))
        loop = asyncio.get_running_loop()
        began = loop.time()
        await life.coordinator.fetch_offsets("g", [("weak", 0)], False)
        taken = await life.transactor.init("tx", 60_000, -1, -1)
        await life.transactor.add("tx", taken.producer_id, taken.producer_epoch, [("weak", 0), ("weak", 1)])
        batch = batch_of(
            b"x", producer_id=taken.producer_id, epoch=taken.producer_epoch, sequence=0, transactional=True
        )
        await life.send(life.partition("weak", 1), batch, "tx")
        assert (await life.transactor.end("tx", taken.producer_id, taken.producer_epoch, True, False)).code is None
        await life.coordinator.commit_offsets(CommitRequest(group_id="g", offsets=(("weak", 0, 1, -1, ""),)))
        assert loop.time() - began < 5
        assert life.partition("weak", 1).last_stable_offset == 3

    desk.live(play)

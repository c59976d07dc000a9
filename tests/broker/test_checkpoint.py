"""Checkpoints that are called off, that find no space, and that run while everything goes on."""

from __future__ import annotations

import asyncio
import errno

import msgspec
import pytest

from longhall.broker.checkpoint import checkpoint, request_checkpoint
from longhall.broker.housekeeper import Housekeeper
from longhall.broker.topic_administration import create_topic, delete_topic, trim_log
from longhall.errors import Code
from longhall.log.layout import partition_directory
from tests.broker.desk import Desk, Life, batch_of, picture, stored_batches

LARGE = bytes(80_000)


@pytest.mark.parametrize("seed", range(30))
def test_a_cancelled_checkpoint_leaves_its_work_to_the_next(seed: int) -> None:
    """As a node does that is told to stop while its housekeeper takes one."""
    desk = Desk(seed)
    before: dict[str, object] = {}

    async def play(life: Life) -> None:
        await create_topic(life.hall, "t", 12, {})
        for number in range(24):
            await life.send(life.partition("t", number % 12), batch_of(LARGE if number % 5 == 0 else b"small"))
        task = asyncio.get_running_loop().create_task(checkpoint(life.hall))
        await asyncio.sleep(0.002 * seed)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        await checkpoint(life.hall)
        before.update(picture(life.hall))

    desk.live(play, end="cut")

    async def look(life: Life) -> None:
        assert picture(life.hall) == before

    desk.live(look)


@pytest.mark.parametrize("seed", range(4))
def test_a_running_checkpoint_publishes_nothing_when_the_state_fails(seed: int) -> None:
    desk = Desk(seed)

    async def play(life: Life) -> None:
        await create_topic(life.hall, "t", 12, {})
        await life.send(life.partition("t", 0), batch_of(b"small"))
        task = asyncio.get_running_loop().create_task(checkpoint(life.hall))
        await asyncio.sleep(0)
        life.hall.failed = "half of an entry is applied"
        with pytest.raises(OSError, match="half of an entry") as caught:
            await task
        assert caught.value.errno == errno.ENOTRECOVERABLE
        assert life.hall.checkpoints == 0
        assert not [name for name in life.hall.world.disk.list("shards") if life.hall.world.disk.list(f"shards/{name}")]

    desk.live(play, end="cut")


def test_a_topic_deleted_while_a_checkpoint_runs_is_gone_and_not_counted_twice() -> None:
    for moment in range(20):
        desk = Desk(moment)
        directories: list[str] = []

        async def play(life: Life, moment: int = moment, directories: list[str] = directories) -> None:
            await create_topic(life.hall, "t", 4, {})
            await create_topic(life.hall, "kept", 4, {})
            for number in range(8):
                await life.send(life.partition("t", number % 4), batch_of(b"x" * 3_000))
                await life.send(life.partition("kept", number % 4), batch_of(b"y" * 3_000))
            directories.extend(partition_directory(partition.log.partition) for partition in life.hall.routes["t"])
            task = asyncio.get_running_loop().create_task(checkpoint(life.hall))
            for _ in range(moment):
                await asyncio.sleep(0 if moment < 10 else 0.003)
            await delete_topic(life.hall, "t")
            await task
            assert life.hall.tail_bytes == sum(part.log.tail_bytes for part in life.hall.partitions.values())
            await checkpoint(life.hall)
            assert life.hall.tail_bytes == 0
            assert not any(life.world.disk.exists(directory) for directory in directories)

        desk.live(play, end="cut")

        async def look(life: Life, directories: list[str] = directories) -> None:
            assert life.hall.topic("t") is None
            assert [len(stored_batches(life.partition("kept", number))) for number in range(4)] == [2] * 4
            await checkpoint(life.hall)
            assert not any(life.world.disk.exists(directory) for directory in directories)

        desk.live(look)


def test_a_full_disk_delays_the_checkpoint_and_nothing_is_lost() -> None:
    desk = Desk()

    async def play(life: Life) -> None:
        hall = life.hall
        hall.wal.prepare_spare()
        await create_topic(hall, "t", 1, {})
        await life.send(life.partition("t"), batch_of(b"x" * 50_000))
        await trim_log(hall, life.partition("t"), 1)
        await create_topic(hall, "gone", 1, {})
        await life.send(life.partition("gone"), batch_of(b"y" * 50_000))
        await delete_topic(hall, "gone")
        await life.send(life.partition("t"), batch_of(b"z" * 50_000))
        desk.host.faults.capacity_bytes = desk.host.platter.used()
        waiting = len(hall.dropped), len(hall.dead_segments)
        with pytest.raises(OSError, match="space") as caught:
            await checkpoint(hall)
        assert caught.value.errno == errno.ENOSPC
        assert (len(hall.dropped), len(hall.dead_segments)) == waiting
        assert hall.storage_full
        assert (await life.send(life.partition("t"), batch_of(b"refused"))).code is Code.STORAGE_FULL
        assert b"zzz" in b"".join(life.partition("t").log.read(1, 100, 2).buffers), "reading goes on"
        desk.host.faults.capacity_bytes = None
        keeper = Housekeeper(hall)
        keeper.start()
        await asyncio.sleep(3)
        await keeper.stop()
        assert not hall.storage_full
        assert hall.checkpoints == 1
        assert hall.tail_bytes == 0
        assert (await life.send(life.partition("t"), batch_of(b"taken"))).code is None

    desk.live(play, end="cut")

    async def look(life: Life) -> None:
        assert [header.base_offset for header, _ in stored_batches(life.partition("t"))] == [1, 2]

    desk.live(look)


def test_the_log_is_released_and_stays_small() -> None:
    desk = Desk()

    async def play(life: Life) -> None:
        await create_topic(life.hall, "t", 1, {"segment.bytes": "10000000"})
        for _ in range(8):
            for _ in range(90):
                batch = batch_of(b"x" * 50_000)
                await life.send(life.partition("t"), batch)
            await checkpoint(life.hall)
        assert len(life.world.disk.list("wal")) <= 4

    desk.live(play)

    async def look(life: Life) -> None:
        assert life.partition("t").log.next_offset == 8 * 90
        assert life.report.entries <= 3

    desk.live(look)


def test_the_number_of_replay_steps_is_bounded() -> None:
    desk = Desk()

    async def play(life: Life) -> None:
        hall = life.hall
        hall.options = msgspec.structs.replace(hall.options, checkpoint_steps=40)
        await create_topic(hall, "t", 1, {})
        keeper = Housekeeper(hall)
        keeper.start()
        await asyncio.sleep(5)
        before = hall.checkpoints
        for _ in range(30):
            await life.send(life.partition("t"), batch_of(b"x"))
        await asyncio.sleep(5)
        assert hall.checkpoints == before
        for _ in range(30):
            await life.send(life.partition("t"), batch_of(b"x"))
        await asyncio.sleep(5)
        assert hall.checkpoints == before + 1
        await keeper.stop()

    desk.live(play)


def test_a_requested_checkpoint_has_what_was_there_at_the_request() -> None:
    """A checkpoint that is under way has captured an earlier state, in which committed entries are missing."""
    desk = Desk()

    async def play(life: Life) -> None:
        hall = life.hall
        await create_topic(hall, "t", 1, {})
        under_way = asyncio.ensure_future(checkpoint(hall))
        await asyncio.sleep(0)
        await life.send(life.partition("t"), batch_of(b"later"))
        sent_to = hall.wal.end
        requested = asyncio.ensure_future(request_checkpoint(hall, 30.0))
        await under_way
        assert hall.checkpoint_at < sent_to
        await asyncio.sleep(1)
        assert not requested.done()
        keeper = Housekeeper(hall)
        keeper.start()
        assert await requested
        assert hall.checkpoint_at >= sent_to
        await keeper.stop()

    desk.live(play)


def test_a_request_outlives_a_checkpoint_that_fails() -> None:
    desk = Desk()

    async def play(life: Life) -> None:
        hall = life.hall
        await create_topic(hall, "t", 1, {})
        requested = asyncio.ensure_future(request_checkpoint(hall, 30.0))
        await asyncio.sleep(0)
        cancelled = asyncio.ensure_future(checkpoint(hall))
        await asyncio.sleep(0)
        assert not hall.checkpoint_wanted
        cancelled.cancel()
        await asyncio.gather(cancelled, return_exceptions=True)
        assert hall.checkpoint_wanted
        await checkpoint(hall)
        assert await requested

    desk.live(play)

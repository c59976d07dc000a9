"""Commits on a disk that takes its time, and on one that breaks its word."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import msgspec
import pytest

from longhall.broker.checkpoint import checkpoint
from longhall.broker.commits import LONE_ROUNDS_MIN
from longhall.broker.housekeeper import Housekeeper
from longhall.broker.send import send, wait
from longhall.broker.topic_administration import create_topic
from longhall.shards.shard import Committable
from longhall.world.ports import Done, File
from tests.broker.desk import OPTIONS, Desk, Life, batch_of, stored_batches


class Heard(Committable):
    def __init__(self) -> None:
        self.values: list[int] = []

    def committed(self, value: int) -> None:
        self.values.append(value)


@pytest.mark.parametrize("lone_sync_us_max", [0, 1_000_000])
def test_a_failed_sync_releases_nothing_and_stops_everything(lone_sync_us_max: int) -> None:
    desk = Desk(options=msgspec.structs.replace(OPTIONS, lone_sync_us_max=lone_sync_us_max))

    async def play(life: Life) -> None:
        await create_topic(life.hall, "t", 1, {})
        for _ in range(LONE_ROUNDS_MIN + 1):
            await life.send(life.partition("t"), batch_of(b"before"))
        desk.host.faults.sync_error_chance = 1.0
        heard = Heard()
        for number in range(3):
            batch = batch_of(b"lost")
            assert send(life.hall, life.partition("t"), batch, 0, len(batch)).code is None
            wait(life.hall, life.partition("t"), heard, number)
            await asyncio.sleep(0.5)
        assert heard.values == []
        assert len(life.failures) == 1
        assert life.partition("t").high_watermark == LONE_ROUNDS_MIN + 1
        desk.host.faults.sync_error_chance = 0.0
        with pytest.raises(OSError, match="failed"):
            await life.hall.commits.durable()
        with pytest.raises(OSError, match="failed"):
            await checkpoint(life.hall)
        await asyncio.sleep(1)
        assert heard.values == []

    desk.live(play, end="cut")

    async def look(life: Life) -> None:
        assert b"before" in stored_batches(life.partition("t"))[0][1]

    desk.live(look)


def test_a_checkpoint_whose_sync_fails_stops_the_node() -> None:
    desk = Desk()

    async def play(life: Life) -> None:
        await create_topic(life.hall, "t", 1, {})
        await life.send(life.partition("t"), batch_of(b"x"))
        positions = life.hall.wal.start, life.hall.checkpoint_at
        await life.sync()
        desk.host.faults.sync_error_chance = 1.0
        with pytest.raises(OSError, match="failed"):
            await checkpoint(life.hall)
        assert (life.hall.wal.start, life.hall.checkpoint_at) == positions
        assert life.hall.commits.failure is not None
        desk.host.faults.sync_error_chance = 0.0

    desk.live(play, end="cut")

    async def look(life: Life) -> None:
        assert len(stored_batches(life.partition("t"))) == 1

    desk.live(look)


@pytest.mark.parametrize("durability", ["interval", "none"])
def test_weak_topics_are_acknowledged_by_the_write_and_durable_by_the_next_sync(durability: str) -> None:
    desk = Desk()

    async def play(life: Life) -> None:
        await create_topic(life.hall, "weak", 1, {"longhall.durability": durability})
        horizon = life.hall.wal.horizon
        await life.send(life.partition("weak"), batch_of(b"weak"))
        assert life.hall.wal.horizon == horizon
        assert life.partition("weak").high_watermark == 1
        life.hall.commits.sync_soon()
        await life.sync()

    desk.live(play, end="cut")

    async def look(life: Life) -> None:
        assert len(stored_batches(life.partition("weak"))) == 1

    desk.live(look)


def test_one_sync_covers_all_writes_during_the_last_one() -> None:
    desk = Desk()

    async def play(life: Life) -> None:
        await create_topic(life.hall, "t", 8, {})
        await life.sync()
        rounds = life.hall.journal.rounds
        tasks = [
            asyncio.get_running_loop().create_task(life.send(life.partition("t", n % 8), batch_of(b"%d" % n)))
            for n in range(200)
        ]
        await asyncio.gather(*tasks)
        assert life.hall.journal.rounds - rounds <= 2

    desk.live(play)


def test_a_failed_sync_of_a_file_name_stops_the_node() -> None:
    desk = Desk()

    async def play(life: Life) -> None:
        await create_topic(life.hall, "t", 1, {})
        await life.send(life.partition("t"), batch_of(b"x"))
        keeper = Housekeeper(life.hall)
        keeper.start()
        desk.host.faults.sync_error_chance = 1.0
        await asyncio.sleep(1.5)
        assert life.hall.commits.failure is not None
        assert life.failures
        await keeper.stop()
        desk.host.faults.sync_error_chance = 0.0

    desk.live(play, end="cut")

    async def look(life: Life) -> None:
        assert len(stored_batches(life.partition("t"))) == 1

    desk.live(look)


def test_a_small_commit_alone_is_synced_on_the_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    desk = Desk(options=msgspec.structs.replace(OPTIONS, lone_sync_us_max=1_000_000))

    async def play(life: Life) -> None:
        synced: list[str] = []
        disk = life.world.disk
        now, later = disk.sync_now, disk.sync

        def sync_now(file: File) -> None:
            synced.append("here")
            now(file)

        def sync(files: Sequence[File], done: Done, *, background: bool = False) -> None:
            synced.append("beside")
            later(files, done, background=background)

        monkeypatch.setattr(disk, "sync_now", sync_now)
        monkeypatch.setattr(disk, "sync", sync)
        await create_topic(life.hall, "t", 3, {})
        await life.send(life.partition("t"), batch_of(b"large" * 10_000))
        synced.clear()
        for _ in range(LONE_ROUNDS_MIN + 1):
            await life.send(life.partition("t"), batch_of(b"small"))
        assert set(synced[:-1]) == {"beside"}
        assert synced[-1] == "here"
        for others in ([batch_of(b"large" * 10_000)], [batch_of(b"three"), batch_of(b"at"), batch_of(b"once")]):
            await asyncio.gather(*(life.send(life.partition("t", at), batch) for at, batch in enumerate(others)))
            assert synced[-1] == "beside"
            for _ in range(LONE_ROUNDS_MIN):  # These look how quick the disk is, and whether anybody else is here.
                await life.send(life.partition("t"), batch_of(b"small"))
            assert synced[-1] == "beside"
            await life.send(life.partition("t"), batch_of(b"small"))
            assert synced[-1] == "here"

    desk.live(play)

"""Files that cannot be made: the message is refused, nothing is changed by half, and it ends by itself."""

from __future__ import annotations

import asyncio
import errno
from typing import Any

import msgspec
import pytest

from longhall.broker.housekeeper import FILES_RESERVE, Housekeeper
from longhall.broker.partition import Listener, Partition
from longhall.broker.send import send
from longhall.broker.topic_administration import create_topic
from longhall.errors import Code
from longhall.records.batch import BatchHeader
from simulation.disk import SimulatedFile
from tests.broker.desk import OPTIONS, Desk, Life, batch_of, stored_batches

PARTITIONS = 6
BODY = bytes(50_000)


def no_space(*_: Any, **__: Any) -> Any:
    raise OSError(errno.ENOSPC, "no inode is left")


class Broken(Listener):
    """A queue with a bug."""

    def on_batch(self, partition: Partition, header: BatchHeader, stored: bytes, now_ms: int) -> None:
        raise ValueError("a bug")

    def on_sent(self, count: int) -> None:
        raise AssertionError(count)

    @property
    def wants_bodies(self) -> bool:
        return False


def break_creation(life: Life, monkeypatch: pytest.MonkeyPatch) -> None:
    """Directories cannot be made, as on a file system without free inodes."""
    monkeypatch.setattr(type(life.world.disk), "make_directory", no_space)


def test_idempotent_messages_are_stored_once_when_segments_cannot_be_created(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A failed creation between the append of a batch and its apply made the producer's repeat a second message."""
    desk = Desk(options=msgspec.structs.replace(OPTIONS, segment_bytes=1 << 20))

    async def play(life: Life) -> None:
        await create_topic(life.hall, "t", PARTITIONS, {})
        with monkeypatch.context() as broken:
            break_creation(life, broken)
            for sequence in range(8):
                for number in range(PARTITIONS):
                    batch = batch_of(BODY, producer_id=7 + number, epoch=0, sequence=sequence)
                    sent = send(life.hall, life.partition("t", number), batch, 0, len(batch))
                    again = send(life.hall, life.partition("t", number), batch, 0, len(batch))
                    assert sent.code in (None, Code.STORAGE_FULL)
                    assert again.code in (None, Code.STORAGE_FULL)
            assert life.hall.storage_full
        assert life.failures == []

    desk.live(play)

    async def look(life: Life) -> None:
        for number in range(PARTITIONS):
            sequences = [header.base_sequence for header, _ in stored_batches(life.partition("t", number))]
            assert sequences == sorted(set(sequences))

    desk.live(look)


def test_a_disk_that_refuses_files_counts_as_full_until_it_accepts_them(monkeypatch: pytest.MonkeyPatch) -> None:
    desk = Desk()

    async def play(life: Life) -> None:
        await create_topic(life.hall, "t", PARTITIONS, {})
        housekeeper = Housekeeper(life.hall)
        housekeeper.start()
        with monkeypatch.context() as broken:
            break_creation(life, broken)
            broken.setattr(type(life.world.disk), "open", no_space)
            for number in range(PARTITIONS):
                batch = batch_of(BODY)
                send(life.hall, life.partition("t", number), batch, 0, len(batch))
            await asyncio.sleep(5)
            assert life.hall.storage_full
            assert "keep" not in life.hall.background.failing, "the housekeeper goes on"
        await asyncio.sleep(3)
        assert not life.hall.storage_full
        assert (await life.send(life.partition("t"), batch_of(b"taken"))).code is None
        await housekeeper.stop()
        assert life.failures == []

    desk.live(play)


def test_few_free_inodes_count_as_a_full_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    desk = Desk()

    async def play(life: Life) -> None:
        housekeeper = Housekeeper(life.hall)
        housekeeper.start()
        with monkeypatch.context() as broken:
            broken.setattr(type(life.world.disk), "free_files", lambda disk: FILES_RESERVE - 1)
            await asyncio.sleep(2)
            assert life.hall.storage_full
        await asyncio.sleep(2)
        assert not life.hall.storage_full
        await housekeeper.stop()

    desk.live(play)


def test_a_removed_data_directory_stops_the_node() -> None:
    desk = Desk()

    async def play(life: Life) -> None:
        await create_topic(life.hall, "t", 1, {})
        housekeeper = Housekeeper(life.hall)
        housekeeper.start()
        life.world.disk.remove("wal")
        await asyncio.sleep(3)
        assert [failure.errno for failure in life.failures] == [errno.ENOENT]
        await housekeeper.stop()

    desk.live(play)


def test_an_apply_that_fails_after_the_append_stops_the_node() -> None:
    desk = Desk()

    async def play(life: Life) -> None:
        await create_topic(life.hall, "t", 1, {})
        partition = life.partition("t")
        partition.listeners.append(Broken())
        batch = batch_of(b"half")
        with pytest.raises(ValueError, match="a bug"):
            send(life.hall, partition, batch, 0, len(batch))
        assert [failure.errno for failure in life.failures] == [errno.ENOTRECOVERABLE]
        with pytest.raises(OSError, match="internal error"):
            life.hall.commits.write()

    desk.live(play)


def test_a_write_ahead_log_that_cannot_be_written_stops_the_node_before_it_writes_twice(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    desk = Desk()

    async def play(life: Life) -> None:
        await create_topic(life.hall, "t", 1, {})
        batch = batch_of(b"lost")
        send(life.hall, life.partition("t"), batch, 0, len(batch))
        with monkeypatch.context() as broken:
            broken.setattr(SimulatedFile, "write_at", no_space)
            with pytest.raises(OSError, match="no inode"):
                await life.hall.commits.durable()
        assert [failure.errno for failure in life.failures] == [errno.ENOSPC]

    desk.live(play)

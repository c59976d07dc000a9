"""Fetches that wait, that are cancelled, and that read cold data."""

from __future__ import annotations

import asyncio

import pytest

from longhall.broker.checkpoint import checkpoint
from longhall.broker.fetch import Fetch, PartitionFetch
from longhall.broker.offset_lookup import EARLIEST, LATEST, NEWEST, look_up_offset
from longhall.broker.partition import Partition
from longhall.broker.send import append
from longhall.broker.topic_administration import create_topic, delete_topic, trim_log
from longhall.broker.waiting import committed
from longhall.errors import Code, LonghallError
from longhall.records.batch import parse_header
from longhall.records.control import build_marker
from tests.broker.desk import Desk, Life, batch_of


def fetch(
    life: Life, wanted: list[PartitionFetch], *, wait_ms: int = 0, bytes_min: int = 1, bytes_max: int = 1 << 20
) -> tuple[Fetch, list[Fetch]]:
    done: list[Fetch] = []
    asked = Fetch(life.hall, wanted, bytes_min, bytes_max, wait_ms, False, done.append)
    asked.start()
    return asked, done


def want(life: Life, number: int, offset: int, bytes_max: int = 1 << 20) -> PartitionFetch:
    return PartitionFetch(life.partition("t", number), offset, bytes_max, -1)


def test_a_fetch_waits_for_data_and_replies_once() -> None:
    desk = Desk()

    async def play(life: Life) -> None:
        await create_topic(life.hall, "t", 2, {})
        _, done = fetch(life, [want(life, 0, 0), want(life, 1, 0)], wait_ms=10_000)
        await asyncio.sleep(1)
        assert done == []
        await life.send(life.partition("t", 1), batch_of(b"here"))
        await asyncio.sleep(0.1)
        assert len(done) == 1
        assert b"here" in b"".join(bytes(part) for part in done[0].wanted[1].buffers)
        await life.send(life.partition("t", 0), batch_of(b"later"))
        await asyncio.sleep(20)
        assert len(done) == 1
        assert not life.partition("t", 0).watchers
        assert not life.partition("t", 1).watchers

    desk.live(play)


def test_a_fetch_replies_with_available_data_at_its_timeout() -> None:
    desk = Desk()

    async def play(life: Life) -> None:
        await create_topic(life.hall, "t", 1, {})
        await life.send(life.partition("t"), batch_of(b"little"))
        _, done = fetch(life, [want(life, 0, 0)], wait_ms=500, bytes_min=1_000_000)
        await asyncio.sleep(0.4)
        assert done == []
        await asyncio.sleep(0.2)
        assert done[0].size_bytes > 0
        assert not life.partition("t").watchers

    desk.live(play)


def test_a_cancelled_fetch_leaves_no_watchers() -> None:
    desk = Desk()

    async def play(life: Life) -> None:
        await create_topic(life.hall, "t", 1, {})
        asked, done = fetch(life, [want(life, 0, 0)], wait_ms=10_000)
        assert list(life.partition("t").watchers) == [asked]
        asked.cancel()
        assert not life.partition("t").watchers
        await life.send(life.partition("t"), batch_of(b"x"))
        await asyncio.sleep(20)
        assert done == []
        await checkpoint(life.hall)
        desk.host.faults.cold_read_chance = 1.0
        asked, done = fetch(life, [want(life, 0, 0)], wait_ms=10_000)
        asked.cancel()
        await asyncio.sleep(20)
        assert done == []

    desk.live(play)


def test_deleting_a_topic_wakes_waiting_fetches() -> None:
    desk = Desk()

    async def play(life: Life) -> None:
        await create_topic(life.hall, "t", 1, {})
        _, done = fetch(life, [want(life, 0, 0)], wait_ms=60_000)
        await delete_topic(life.hall, "t")
        await asyncio.sleep(0.1)
        assert done[0].wanted[0].code is Code.UNKNOWN_TOPIC

    desk.live(play)


@pytest.mark.parametrize("seed", range(6))
def test_cold_data_is_read_in_the_background(seed: int) -> None:
    desk = Desk(seed)

    async def play(life: Life) -> None:
        await create_topic(life.hall, "t", 3, {"segment.bytes": "3000"})
        for number in range(60):
            await life.send(life.partition("t", number % 3), batch_of(b"%03d" % number + b"." * 300))
        await checkpoint(life.hall)

    desk.live(play)

    async def look(life: Life) -> None:
        desk.host.faults.cold_read_chance = 0.5
        for offset in range(20):
            _, done = fetch(life, [want(life, number, offset) for number in range(3)], wait_ms=100)
            await asyncio.sleep(5)
            (answer,) = done
            assert all(wanted.code is None for wanted in answer.wanted)
            assert b"%03d" % (offset * 3) in b"".join(bytes(part) for part in answer.wanted[0].buffers)
        life.world.disk.remove("partitions/0000000000000001/00000000000000000000.log")
        life.hall.files.close()
        _, done = fetch(life, [want(life, 0, 0), want(life, 1, 0)])
        await asyncio.sleep(1)
        assert done[0].wanted[0].code is Code.STORAGE_DAMAGED
        assert done[0].wanted[1].code is None
        with pytest.raises(LonghallError) as caught:
            await look_up_offset(life.hall, life.partition("t", 0), 1_800_000_000_000, False, -1)
        assert caught.value.code is Code.STORAGE_DAMAGED
        assert life.hall.commits.failure is None

    desk.live(look)


async def mark(life: Life, partition: Partition, timestamp_ms: int) -> None:
    """The end of a transaction, in the log."""
    batch = build_marker(True, 7, 0, 0, timestamp_ms)
    assert append(life.hall, partition, parse_header(batch, 0), batch, 0, timestamp_ms, message=False) is None
    await committed(life.hall, partition.shard)


@pytest.mark.parametrize("cold", [0.0, 1.0])
def test_the_newest_record_is_found_among_markers(cold: float) -> None:
    """Markers are newer than the records before them, and are no records."""
    desk = Desk()
    begin = 1_800_000_000_000

    async def play(life: Life) -> None:
        await create_topic(
            life.hall, "t", 1, {"segment.bytes": "30000", "message.timestamp.after.max.ms": "99999999999"}
        )
        partition = life.partition("t")
        await mark(life, partition, begin + 5_000)
        assert await look_up_offset(life.hall, partition, NEWEST, False, -1) is None
        for number in range(120):
            stamp = begin + (900 if number == 30 else number)
            await life.send(partition, batch_of(b"." * 3000, timestamp_ms=stamp))
            await mark(life, partition, begin + 1_000 + number)
        desk.host.faults.cold_read_chance = cold
        newest = await look_up_offset(life.hall, partition, NEWEST, False, -1)
        assert newest is not None
        assert newest[:2] == (61, begin + 900)
        await trim_log(life.hall, partition, 62)
        newest = await look_up_offset(life.hall, partition, NEWEST, False, -1)
        assert newest is not None
        assert newest[:2] == (239, begin + 119)

    desk.live(play)


@pytest.mark.parametrize("cold", [0.0, 1.0])
def test_offsets_are_found_by_time(cold: float) -> None:
    desk = Desk()
    begin = 1_800_000_000_000

    async def play(life: Life) -> None:
        await create_topic(life.hall, "t", 1, {"segment.bytes": "3000"})
        partition = life.partition("t")
        assert await look_up_offset(life.hall, partition, begin, False, -1) is None
        assert await look_up_offset(life.hall, partition, NEWEST, False, -1) is None
        for number in range(40):
            await life.send(partition, batch_of(b"." * 300, timestamp_ms=begin + 10 * number))
        desk.host.faults.cold_read_chance = cold
        for number in range(40):
            for earlier in (0, 1, 9):
                place = await look_up_offset(life.hall, partition, begin + 10 * number - earlier, False, -1)
                assert place is not None
                assert place[:2] == (number, begin + 10 * number)
        assert await look_up_offset(life.hall, partition, begin + 391, False, -1) is None
        latest = await look_up_offset(life.hall, partition, LATEST, False, -1)
        assert latest is not None
        assert latest[0] == 40
        newest = await look_up_offset(life.hall, partition, NEWEST, False, -1)
        assert newest is not None
        assert newest[:2] == (39, begin + 390)
        await trim_log(life.hall, partition, 17)
        earliest = await look_up_offset(life.hall, partition, EARLIEST, False, -1)
        assert earliest is not None
        assert earliest[0] == 17
        first = await look_up_offset(life.hall, partition, begin, False, -1)
        assert first is not None
        assert first[0] == 17
        with pytest.raises(LonghallError) as caught:
            await look_up_offset(life.hall, partition, LATEST, False, 99)
        assert caught.value.code is Code.UNKNOWN_LEADER_EPOCH

    desk.live(play)

"""Priorities: higher levels go out first, and the topic shows every message once, in the order of availability."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
import pytest

from longhall.broker.checkpoint import checkpoint
from longhall.broker.log_cleaner import LogCleaner
from longhall.broker.queues.delivery import scan_advance
from longhall.broker.topic_administration import add_partitions
from longhall.errors import Code
from longhall.queues.messages import Outgoing
from longhall.queues.settings import DeadLetters, QueueSettings
from longhall.records.batch import build_batch, read_records
from longhall.records.record import Record
from tests.broker.desk import stored_batches
from tests.broker.queues.rig import KEEP, Queues, Rig

LEVELS = QueueSettings(priorities=5)


async def send_levels(queues: Queues, name: str, *levels: int, **fields: Any) -> list[str]:
    """A message a level, named after it and its turn."""
    ids: list[str] = []
    for turn, level in enumerate(levels):
        ids.extend(await queues.send(name, f"{level}-{turn}", priority=level, **fields))
    return ids


def topic(queues: Queues, name: str) -> list[str]:
    """What a reader of the topic sees."""
    return [
        (record.value or b"").decode()
        for _, batch in stored_batches(queues.life.partition(name))
        for record in read_records(batch, 0)
    ]


def test_higher_levels_are_delivered_first_and_each_in_order() -> None:
    rig = Rig()

    async def first(queues: Queues) -> None:
        await queues.desk.create("q", LEVELS)
        ids = await send_levels(queues, "q", 0, 3, 1, 3, 0, 99)
        assert queues.desk.depth("q").available == 6
        deliveries = await queues.receive("q", 2)
        assert [one.body for one in deliveries] == [b"99-5", b"3-1"]  # Beyond the highest is the highest.
        assert [one.message_id for one in deliveries] == [ids[5], ids[1]]
        assert queues.desk.depth("q").available == 4
        assert topic(queues, "q") == ["0-0", "3-1", "1-2", "3-3", "0-4", "99-5"]

    async def second(queues: Queues) -> None:
        assert await queues.bodies("q", 1) == ["3-3"]
        await checkpoint(queues.life.hall)
        await queues.send("q", "late and urgent", priority=4)

    async def third(queues: Queues) -> None:
        assert await queues.drain("q") == ["late and urgent", "1-2", "0-0", "0-4"]
        await asyncio.sleep(31)
        assert await queues.drain("q") == ["99-5", "3-1", "3-3"]
        assert await queues.drain("q") == []
        assert queues.desk.depth("q").available == 0

    rig.live(first)
    rig.live(second, end="cut")
    rig.live(third)


def test_returned_messages_keep_their_level() -> None:
    async def play(queues: Queues) -> None:
        await queues.desk.create("q", LEVELS)
        await send_levels(queues, "q", 2, 0, 0)
        (urgent,) = await queues.receive("q", 1)
        assert await queues.bodies("q", 1) == ["0-1"]
        await queues.desk.change_lease("q", [(urgent.receipt, 0)])
        assert await queues.bodies("q", 2) == ["2-0", "0-2"]

    Rig().live(play)


def test_delayed_messages_keep_level_and_id() -> None:
    rig = Rig()

    async def first(queues: Queues) -> list[str]:
        await queues.desk.create("q", LEVELS)
        await queues.send("q", "plain")
        return await queues.send("q", "urgent", priority=3, delay_ms=60_000)

    async def second(queues: Queues) -> None:
        assert [seen.state for seen in (await queues.desk.inspection.peek("q", 10)).messages] == ["waiting", "delayed"]
        await asyncio.sleep(61)
        urgent, plain = await queues.receive("q")
        assert (urgent.body, plain.body) == (b"urgent", b"plain")
        assert [urgent.message_id] == ids
        assert topic(queues, "q") == ["plain", "urgent"]

    ids = rig.live(first)
    rig.live(second)


def test_a_kafka_producer_sets_the_priority_in_a_header() -> None:
    async def play(queues: Queues) -> None:
        await queues.desk.create("q", LEVELS)
        rows = [
            Record(-1, 1_800_000_000_000, None, str(level).encode(), (("longhall.priority", str(level).encode()),))
            for level in (0, 2, 1, 2)
        ]
        life = queues.life
        for compression in (0, 4):
            await life.send(life.partition("q"), build_batch(rows, compression=compression))
        assert await queues.drain("q") == ["2", "2", "2", "2", "1", "1", "0", "0"]
        assert topic(queues, "q") == ["0", "2", "1", "2"] * 2
        # Before a transaction ends nobody knows whether its messages count: they stay where they are.
        await life.send(life.partition("q"), build_batch([rows[1]], producer_id=-1))
        assert await queues.drain("q") == ["2"]

    Rig().live(play)


def test_dead_letters_keep_their_level() -> None:
    async def play(queues: Queues) -> None:
        await queues.desk.create("dead", LEVELS)
        letters = DeadLetters(queue="dead", attempts_max=1)
        await queues.desk.create("q", msgspec.structs.replace(LEVELS, dead_letters=letters, lease_ms=1000))
        await send_levels(queues, "q", 0, 3)
        assert await queues.bodies("q", lease_ms=1000) == ["3-1", "0-0"]
        await asyncio.sleep(2)
        assert await queues.bodies("q") == []
        await queues.send("dead", "plain")
        assert await queues.bodies("dead") == ["3-1", "0-0", "plain"]

    Rig().live(play)


def test_purge_browse_rewind_and_fork_cover_the_levels() -> None:
    rig = Rig()
    settings = msgspec.structs.replace(KEEP, priorities=3)

    async def first(queues: Queues) -> None:
        await queues.desk.create("q", settings)
        await send_levels(queues, "q", 0, 2, 1)
        page = await queues.desk.inspection.peek("q", 10)
        assert [(seen.delivery.body, seen.lane) for seen in page.messages] == [(b"2-1", -2), (b"1-2", -1), (b"0-0", 0)]
        assert await queues.drain("q") == ["2-1", "1-2", "0-0"]
        await queues.desk.rewind("q", "start")

    async def second(queues: Queues) -> None:
        assert await queues.drain("q") == ["2-1", "1-2", "0-0"]
        await queues.desk.fork("q", "f")
        assert await queues.drain("f") == ["0-0", "2-1", "1-2"]  # As the log has them.
        await queues.desk.rewind("q", {-2: 0})
        assert await queues.drain("q") == ["2-1"]
        await send_levels(queues, "q", 2, 0)
        await queues.desk.purge("q")
        assert await queues.drain("q") == []
        assert await queues.drain("f") == ["2-0", "0-1"]

    rig.live(first)
    rig.live(second)


def test_deleting_a_queue_deletes_its_levels() -> None:
    rig = Rig()

    async def first(queues: Queues) -> None:
        await queues.desk.create("q", LEVELS)
        await send_levels(queues, "q", 1, 2, 3)
        await queues.desk.delete("q")
        assert queues.life.hall.partitions == {}

    async def second(queues: Queues) -> None:
        assert queues.life.hall.partitions == {}

    rig.live(first)
    rig.live(second)


def test_a_full_queue_counts_every_message_once() -> None:
    async def play(queues: Queues) -> None:
        await queues.desk.create("q", msgspec.structs.replace(LEVELS, messages_max=3))
        await send_levels(queues, "q", 1, 0, 2)
        (refused,) = await queues.desk.send("q", [Outgoing(body=b"x", priority=2)])
        assert refused.code is Code.QUEUE_FULL
        assert len(await queues.drain("q")) == 3
        await send_levels(queues, "q", 1)

    Rig().live(play)


def test_lanes_of_new_partitions_are_delivered() -> None:
    rig = Rig()

    async def first(queues: Queues) -> None:
        await queues.desk.create("q", LEVELS)
        await add_partitions(queues.life.hall, "q", 3)
        for level in (0, 1, 0, 1, 0, 1):
            await queues.send("q", str(level), priority=level)

    async def second(queues: Queues) -> None:
        assert await queues.drain("q") == ["1", "1", "1", "0", "0", "0"]

    rig.live(first)
    rig.live(second)


@pytest.mark.parametrize("seed", range(6))
def test_a_power_cut_neither_loses_nor_duplicates_acknowledged_messages(seed: int) -> None:
    """The original and its copy stand or fall together, wherever the node dies."""
    rig = Rig(seed)
    sent: list[str] = []

    async def first(queues: Queues) -> None:
        await queues.desk.create("q", LEVELS)
        rig.host.simulation.loop.call_later(0.02 + seed * 0.017, rig.host.host.cut_power)
        for number in range(400):
            await queues.send("q", str(number), priority=number % 5, delay_ms=number % 3 * 5)
            sent.append(str(number))

    async def second(queues: Queues) -> None:
        await asyncio.sleep(5)
        found = await queues.drain("q")
        assert len(found) == len(set(found))
        assert set(sent) <= set(found)
        assert sorted(found) == sorted(topic(queues, "q"))

    rig.live(first)
    assert sent, "it died before anything was acknowledged"
    rig.live(second)


def test_a_busy_level_does_not_block_the_cleaning_of_the_ordinary_lane(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scan_advance, "BYTES_MIN", 0)
    monkeypatch.setattr(scan_advance, "READY_MAX", 2)
    rig = Rig()

    async def first(queues: Queues) -> None:
        await queues.desk.create("q", LEVELS)
        await queues.send("q", "low 0", "low 1")
        for number in range(30):
            await queues.send("q", f"high {number}" + "x" * 10_000, priority=3)
            await queues.desk.settle("q", [one.receipt for one in await queues.receive("q", 1)])
        await queues.send("q", "low 2")
        queue = queues.life.hall.running_queue("q")
        assert queue is not None
        cursor = queue.queue.cursor(queue.main_lane().log.partition)
        assert cursor.scan == 0  # Nobody got so far down.
        await LogCleaner(queues.life.hall).run()
        assert cursor.scan == 32
        assert queues.desk.depth("q").available == 3

    async def second(queues: Queues) -> None:
        await queues.send("q", "high again", priority=1)
        assert await queues.drain("q") == ["high again", "low 0", "low 1", "low 2"]

    rig.live(first)
    rig.live(second)


def test_queues_that_cannot_have_priorities_are_refused() -> None:
    async def play(queues: Queues) -> None:
        desk = queues.desk
        assert (
            await queues.refused(desk.create("f.fifo", QueueSettings(priorities=2, fifo=True)))
            is Code.INVALID_CONFIGURATION
        )
        await desk.create("q", LEVELS)
        assert await queues.refused(desk.declare("d", "q", LEVELS)) is Code.INVALID_CONFIGURATION
        for other in (1, 6):
            changed = msgspec.structs.replace(LEVELS, priorities=other)
            assert await queues.refused(desk.configure("q", changed)) is Code.INVALID_CONFIGURATION

    Rig().live(play)

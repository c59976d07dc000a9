"""Rewind and fork: everything once more, to the same consumers or to others."""

from __future__ import annotations

import asyncio

import msgspec

from longhall.broker.checkpoint import checkpoint
from longhall.errors import Code
from longhall.queues.settings import QueueSettings
from tests.broker.queues.rig import KEEP, Queues, Rig

ALL = [str(number) for number in range(25)]


def test_a_rewind_redelivers_all_settled_messages() -> None:
    async def play(queues: Queues) -> None:
        await queues.desk.create("q", KEEP)
        await queues.send("q", *ALL)
        assert await queues.drain("q") == ALL
        await queues.desk.rewind("q", "start")
        assert queues.desk.depth("q").available == 25
        assert await queues.drain("q") == ALL
        assert await queues.drain("q") == []

    Rig().live(play)


def test_a_rewind_and_later_settles_survive_a_kill() -> None:
    rig = Rig()

    async def first(queues: Queues) -> None:
        await queues.desk.create("q", KEEP)
        await queues.send("q", *ALL)
        await queues.drain("q")
        await queues.desk.rewind("q", "start")
        deliveries = await queues.receive("q", 5)
        await queues.desk.settle("q", [one.receipt for one in deliveries])

    async def second(queues: Queues) -> None:
        assert await queues.drain("q") == ALL[5:]
        await checkpoint(queues.life.hall)
        await queues.desk.rewind("q", "start")

    async def third(queues: Queues) -> None:
        assert await queues.drain("q") == ALL

    rig.live(first)
    rig.live(second, end="cut")
    rig.live(third)


def test_a_rewind_takes_offsets_and_times() -> None:
    async def play(queues: Queues) -> None:
        await queues.desk.create("q", KEEP)
        await queues.send("q", "a", "b")
        await asyncio.sleep(10)
        between_ms = queues.life.hall.time.now_ms()
        await asyncio.sleep(10)
        await queues.send("q", "c", "d")
        await queues.drain("q")
        await queues.desk.rewind("q", {0: 1})
        assert await queues.drain("q") == ["b", "c", "d"]
        await queues.desk.rewind("q", between_ms)
        assert await queues.drain("q") == ["c", "d"]
        await queues.desk.rewind("q", queues.life.hall.time.now_ms() + 1000)
        assert await queues.drain("q") == []

    Rig().live(play)


def test_earlier_receipts_are_superseded_by_a_rewind() -> None:
    async def play(queues: Queues) -> None:
        await queues.desk.create("q", KEEP)
        await queues.send("q", "a")
        (held,) = await queues.receive("q")
        await queues.desk.rewind("q", "start")
        assert await queues.desk.settle("q", [held.receipt]) == [Code.RECEIPT_SUPERSEDED]
        assert await queues.drain("q") == ["a"]

    Rig().live(play)


def test_invalid_rewinds_are_refused_and_change_nothing() -> None:
    async def play(queues: Queues) -> None:
        await queues.desk.create("free", QueueSettings())
        await queues.desk.create("q", KEEP)
        await queues.send("q", "a", "b")
        await queues.receive("q", 1)
        assert await queues.refused(queues.desk.rewind("free", "start")) is Code.NOT_KEPT
        assert await queues.refused(queues.desk.fork("free", "f")) is Code.NOT_KEPT
        assert await queues.refused(queues.desk.rewind("none", "start")) is Code.UNKNOWN_QUEUE
        assert await queues.refused(queues.desk.rewind("q", "end")) is Code.INVALID_REQUEST
        assert await queues.refused(queues.desk.rewind("q", -1)) is Code.INVALID_REQUEST
        assert await queues.refused(queues.desk.rewind("q", {3: 0})) is Code.INVALID_REQUEST
        assert await queues.refused(queues.desk.rewind("q", {0: 2})) is Code.OFFSET_OUT_OF_RANGE
        assert await queues.refused(queues.desk.rewind("q", {0: -1})) is Code.OFFSET_OUT_OF_RANGE
        assert await queues.bodies("q") == ["b"]

    Rig().live(play)


def test_a_fork_has_its_own_cursor() -> None:
    rig = Rig()

    async def first(queues: Queues) -> None:
        await queues.desk.create("q", KEEP)
        await queues.send("q", "a", "b", "c")
        assert await queues.drain("q") == ["a", "b", "c"]
        await queues.desk.fork("q", "again")
        await queues.desk.fork("q", "tail", {0: 2})
        assert await queues.bodies("again", 2) == ["a", "b"]
        await queues.send("q", "d")
        assert await queues.drain("q") == ["d"]

    async def second(queues: Queues) -> None:
        assert await queues.bodies("again") == ["c", "d"]
        assert await queues.drain("tail") == ["c", "d"]
        assert await queues.drain("q") == []
        await asyncio.sleep(31)
        assert await queues.drain("again") == ["a", "b", "c", "d"]

    rig.live(first)
    rig.live(second)


def test_a_queue_with_forks_cannot_be_deleted() -> None:
    async def play(queues: Queues) -> None:
        await queues.desk.create("q", KEEP)
        await queues.send("q", "a")
        await queues.desk.fork("q", "f")
        assert await queues.refused(queues.desk.delete("q")) is Code.TOPIC_IN_USE
        assert await queues.drain("f") == ["a"]
        await queues.desk.delete("f")
        assert await queues.bodies("q") == ["a"]
        await queues.desk.delete("q")

    Rig().live(play)


def test_fifo_order_holds_after_a_rewind() -> None:
    async def play(queues: Queues) -> None:
        await queues.desk.create("q", msgspec.structs.replace(KEEP, fifo=True))
        await queues.send("q", "a1", "a2", "a3", group="a")
        await queues.send("q", "b1", group="b")
        await queues.drain("q")
        await queues.desk.rewind("q", "start")
        assert await queues.bodies("q", 1) == ["a1"]
        assert await queues.bodies("q") == ["b1"]  # The other group waits for its first.

    Rig().live(play)

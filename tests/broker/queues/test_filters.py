"""Receivers with a filter get what they want, and everything else stays for others."""

from __future__ import annotations

import asyncio

import pytest

from longhall.errors import Code
from longhall.queues import delivery_selection
from longhall.queues.settings import QueueSettings
from tests.broker.queues.rig import Queues, Rig

OSLO = "city = 'Oslo'"


async def send_mixed(queues: Queues, name: str, count: int) -> None:
    for number in range(count):
        await queues.send(name, str(number), attributes={"city": "Oslo" if number % 4 == 3 else "Rome"})


def test_only_matches_are_delivered_and_the_rest_stays_in_order() -> None:
    rig = Rig()

    async def first(queues: Queues) -> None:
        await queues.desk.create("q", QueueSettings())
        await send_mixed(queues, "q", 12)
        assert await queues.drain("q", OSLO) == ["3", "7", "11"]
        assert await queues.drain("q", '{"city": ["Bern"]}') == []
        assert queues.desk.depth("q").available == 9

    async def second(queues: Queues) -> None:
        assert await queues.drain("q", OSLO) == []
        assert await queues.drain("q") == ["0", "1", "2", "4", "5", "6", "8", "9", "10"]

    rig.live(first)
    rig.live(second)


def test_returned_messages_match_again() -> None:
    async def play(queues: Queues) -> None:
        await queues.desk.create("q", QueueSettings())
        await send_mixed(queues, "q", 12)
        held = await queues.receive("q", 1, 30_000, OSLO)
        assert await queues.bodies("q", 10, filter=OSLO) == ["7", "11"]
        assert await queues.bodies("q", 10, filter=OSLO) == []
        await queues.desk.change_lease("q", [(held[0].receipt, 0)])
        assert await queues.bodies("q", 10, filter=OSLO) == ["3"]
        await asyncio.sleep(31)
        assert await queues.drain("q", OSLO) == ["3", "7", "11"]

    Rig().live(play)


@pytest.mark.parametrize("cold", [0.0, 0.3])
def test_a_match_far_behind_is_found_in_bounded_steps(monkeypatch: pytest.MonkeyPatch, cold: float) -> None:
    monkeypatch.setattr(delivery_selection, "LOOKED_AT_MAX", 16)

    async def play(queues: Queues) -> None:
        await queues.desk.create("q", QueueSettings())
        for start in range(0, 300, 50):
            await queues.send("q", *(str(number) for number in range(start, start + 50)), attributes={"city": "Rome"})
        await queues.send("q", "here", attributes={"city": "Oslo"})
        assert await queues.drain("q", OSLO) == ["here"]
        await queues.send("q", "again", attributes={"city": "Oslo"})
        assert await queues.drain("q", OSLO) == ["again"]
        # Everything that was passed is still there, for a filter that nobody named before and then for all.
        assert len(await queues.drain("q", "city = 'Rome' AND $priority = 0")) == 300

    Rig(cold=cold).live(play)


def test_the_read_ahead_of_a_filter_is_bounded() -> None:
    async def play(queues: Queues) -> None:
        await queues.desk.create("q", QueueSettings())
        queue = queues.life.hall.running_queue("q")
        assert queue is not None
        queue.queue._passed_max = 100
        queue.configured()
        await queues.send("q", *(str(number) for number in range(150)), attributes={"city": "Rome"})
        await queues.send("q", "far", attributes={"city": "Oslo"})
        assert await queues.drain("q", OSLO) == []
        assert queue.queue.state.leases.rows == 100
        for _ in range(6):  # As others take what stands before it, it comes within reach.
            deliveries = await queues.receive("q", 10)
            await queues.desk.settle("q", [one.receipt for one in deliveries])
        assert await queues.drain("q", OSLO) == ["far"]

    Rig().live(play)


def test_a_receiver_with_a_filter_wakes_on_a_match() -> None:
    async def play(queues: Queues) -> None:
        await queues.desk.create("q", QueueSettings())
        seeking = asyncio.ensure_future(queues.desk.receive("q", 1, 20_000, 30_000, "", OSLO))
        plain = asyncio.ensure_future(queues.desk.receive("q", 1, 20_000, 30_000, ""))
        await asyncio.sleep(1)
        await queues.send("q", "rome", attributes={"city": "Rome"})
        assert [one.body for one in await plain] == [b"rome"]
        assert not seeking.done()
        await queues.send("q", "oslo", attributes={"city": "Oslo"})
        assert [one.body for one in await seeking] == [b"oslo"]

    Rig().live(play)


def test_a_group_keeps_its_order_under_a_filter() -> None:
    async def play(queues: Queues) -> None:
        await queues.desk.create("q", QueueSettings(fifo=True))
        await queues.send("q", "a1", group="a", attributes={"city": "Rome"})
        await queues.send("q", "a2", group="a", attributes={"city": "Oslo"})
        await queues.send("q", "b1", "b2", group="b", attributes={"city": "Oslo"})
        assert (await queues.bodies("q", 10, filter=OSLO))[0] == "b1"  # a2 would overtake a1.
        (first,) = await queues.receive("q", 1)
        assert first.body == b"a1"
        await queues.desk.settle("q", [first.receipt])
        assert await queues.bodies("q", 10, filter=OSLO) == ["a2"]

    Rig().live(play)


def test_an_invalid_filter_is_refused() -> None:
    async def play(queues: Queues) -> None:
        await queues.desk.create("q", QueueSettings())
        for wrong in ("city =", "{", '{"city": "Oslo"}', "x" * 100_000):
            assert await queues.refused(queues.receive("q", filter=wrong)) is Code.INVALID_REQUEST

    Rig().live(play)

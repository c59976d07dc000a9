"""What arrives for a deleted queue goes to its dead letters, also if those are in another replication group."""

from __future__ import annotations

import asyncio

import pytest

from longhall.queues.messages import Outgoing
from longhall.queues.settings import DeadLetters, QueueSettings
from tests.service.house import House, live

AFTER = DeadLetters(queue="dead", attempts_max=1, after_delete=True)


async def all_of(house: House, name: str, count: int) -> list[bytes]:
    """Everything that arrives within some seconds, settled."""
    found: list[bytes] = []
    for _ in range(100):
        found += await house.drain(name)
        if len(found) >= count:
            break
        await asyncio.sleep(0.1)
    return found


@pytest.mark.parametrize("dead", ["hall", "share", "parts"])
@pytest.mark.parametrize("placement", ["hall", "share", "parts"])
def test_what_is_sent_to_a_deleted_queue_is_a_dead_letter(placement: str, dead: str) -> None:
    async def play(house: House) -> None:
        house.main.hall.feature_level = 8
        await house.queues.create("dead", QueueSettings(placement=dead))
        house.reach.share = 2
        await house.queues.create("q", QueueSettings(placement=placement, dead_letters=AFTER))
        await house.send("q", b"before")
        await house.queues.delete("q")
        (answer,) = await house.queues.send("q", [Outgoing(body=b"late")])
        assert answer.code is None, answer
        assert answer.message_id
        assert sorted(await all_of(house, "dead", 2)) == [b"before", b"late"]
        assert await house.drain("dead") == [], "each of them once"
        await house.queues.create("q", QueueSettings(placement=placement))
        await house.send("q", b"new")
        assert await house.drain("q") == [b"new"]

    live(play)


def test_what_does_not_fit_between_groups_is_refused() -> None:
    async def play(house: House) -> None:
        await house.queues.create("dead", QueueSettings(placement="share", message_bytes_max=1 << 23))
        await house.queues.create("q", QueueSettings(placement="hall", dead_letters=AFTER))
        await house.queues.delete("q")
        (answer,) = await house.queues.send("q", [Outgoing(body=b"." * (4 << 20))])
        assert answer.code is not None
        assert "too large" in answer.message
        assert await house.drain("dead") == []

    live(play)


def test_answers_and_dead_letters_for_a_deleted_queue_follow_its_dead_letters() -> None:
    async def play(house: House) -> None:
        await house.queues.create("dead", QueueSettings(placement="share"))
        for name in ("replies", "letters"):
            await house.queues.create(name, QueueSettings(placement="hall", dead_letters=AFTER))
        letters = DeadLetters(queue="letters", attempts_max=1)
        await house.queues.create("asks", QueueSettings(placement="hall", dead_letters=letters))
        await house.send("asks", b"question", reply_to="replies")
        await house.queues.delete("replies")
        await house.queues.delete("letters")
        (asked,) = await house.receive("asks", lease_ms=1000)
        await house.queues.answer("asks", asked.receipt, Outgoing(body=b"answer"))
        assert await all_of(house, "dead", 1) == [b"answer"]
        await house.send("asks", b"poison")
        await house.receive("asks", lease_ms=100)
        await asyncio.sleep(0.5)
        assert await house.receive("asks") == []
        assert await all_of(house, "dead", 1) == [b"poison"]

    live(play)

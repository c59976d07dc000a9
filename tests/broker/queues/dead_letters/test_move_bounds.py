"""Moves respect the bounds of their target: dead letters, redrives and delayed messages wait for room."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from longhall.errors import Code
from longhall.queues.settings import DeadLetters, QueueSettings
from tests.broker.queues.rig import Queues, Rig


async def fail(queues: Queues, name: str) -> None:
    """Receive everything and give it back."""
    for one in await queues.receive(name):
        await queues.desk.change_lease(name, [(one.receipt, 0)])


async def counts(queues: Queues, *names: str) -> list[int]:
    found = [queues.desk.depth(name) for name in names]
    return [depth.available + depth.in_flight for depth in found]


@pytest.mark.parametrize("when_full", ["refuse", "wait"])
def test_dead_letters_wait_in_their_queue_for_room(when_full: Any) -> None:
    async def play(queues: Queues) -> None:
        await queues.desk.create("dead", QueueSettings(messages_max=2, when_full=when_full))
        await queues.desk.create("q", QueueSettings(dead_letters=DeadLetters(queue="dead", attempts_max=1)))
        await queues.send("q", "a", "b", "c")
        await fail(queues, "q")
        assert await queues.bodies("q") == []
        await asyncio.sleep(1)
        assert await counts(queues, "dead", "q") == [2, 1]
        assert await queues.drain("dead") == ["a", "b"]
        await asyncio.sleep(6)
        assert await queues.bodies("q") == []
        await asyncio.sleep(1)
        assert await queues.drain("dead") == ["c"]

    Rig().live(play)


def test_expired_messages_wait_too_and_are_never_delivered() -> None:
    async def play(queues: Queues) -> None:
        await queues.desk.create("dead", QueueSettings(messages_max=1))
        await queues.desk.create("q", QueueSettings(time_to_live_ms=1_000, dead_letters=DeadLetters(queue="dead")))
        await queues.send("q", "a", "b")
        await asyncio.sleep(3)
        assert await queues.bodies("q") == []
        assert await queues.drain("dead") == ["a"]
        await asyncio.sleep(8)
        assert await queues.drain("dead") == ["b"]

    Rig().live(play)


def test_the_oldest_of_the_target_make_room() -> None:
    async def play(queues: Queues) -> None:
        await queues.desk.create("dead", QueueSettings(messages_max=2, when_full="drop-oldest"))
        await queues.desk.create("q", QueueSettings(dead_letters=DeadLetters(queue="dead", attempts_max=1)))
        await queues.send("q", "a", "b", "c")
        await fail(queues, "q")
        assert await queues.bodies("q") == []
        await asyncio.sleep(6)  # Only committed messages can make room: the last one is tried again.
        assert await queues.bodies("q") == []
        await asyncio.sleep(1)
        assert await queues.drain("dead") == ["b", "c"]

    Rig().live(play)


def test_the_oldest_move_on_to_the_next_dead_letter_queue() -> None:
    async def play(queues: Queues) -> None:
        await queues.desk.create("last", QueueSettings())
        letters = DeadLetters(queue="last")
        await queues.desk.create("dead", QueueSettings(messages_max=2, when_full="dead-letter", dead_letters=letters))
        await queues.desk.create("q", QueueSettings(dead_letters=DeadLetters(queue="dead", attempts_max=1)))
        await queues.send("q", "a", "b", "c")
        await fail(queues, "q")
        assert await queues.bodies("q") == []
        await asyncio.sleep(6)  # Only committed messages can make room: the last one is tried again.
        assert await queues.bodies("q") == []
        await asyncio.sleep(1)
        assert await queues.drain("dead") == ["b", "c"]
        assert await queues.drain("last") == ["a"]

    Rig().live(play)


def test_a_sender_is_refused_when_the_dead_letter_queue_is_full() -> None:
    async def play(queues: Queues) -> None:
        await queues.desk.create("dead", QueueSettings(messages_max=1))
        letters = DeadLetters(queue="dead")
        await queues.desk.create("q", QueueSettings(messages_max=1, when_full="dead-letter", dead_letters=letters))
        await queues.send("q", "a")
        await queues.send("q", "b")
        with pytest.raises(AssertionError, match="QUEUE_FULL"):
            await queues.send("q", "c")
        assert await counts(queues, "dead", "q") == [1, 1]
        assert await queues.refused(queues.desk.delete("q")) is Code.QUEUE_FULL  # Nothing is lost with the queue.
        assert await queues.drain("dead") == ["a"]
        await queues.desk.delete("q")
        assert await queues.drain("dead") == ["b"]

    Rig().live(play)


@pytest.mark.parametrize("chosen", [False, True])
def test_a_redrive_goes_on_when_its_target_has_room(chosen: bool) -> None:
    async def play(queues: Queues) -> None:
        await queues.desk.create("dead", QueueSettings())
        await queues.desk.create("q", QueueSettings(messages_max=2))
        ids = await queues.send("dead", "a", "b", "c")
        await queues.desk.start_move("dead", "q", 0, ids if chosen else [], "")
        await asyncio.sleep(2)
        assert await counts(queues, "q", "dead") == [2, 1]
        assert await queues.drain("q") == ["a", "b"]
        await asyncio.sleep(2)
        assert await queues.drain("q") == ["c"]
        assert [task.state for task in await moves(queues)] == ["COMPLETED"]

    Rig().live(play)


async def moves(queues: Queues) -> list[Any]:
    found = queues.desk.moves("dead")
    return found if isinstance(found, list) else await found


def test_delayed_messages_take_room_and_wait_for_bytes() -> None:
    async def play(queues: Queues) -> None:
        await queues.desk.create("q", QueueSettings(bytes_max=10))
        await queues.send("q", "123456", delay_ms=1_000)
        await queues.send("q", "abcdef")
        await asyncio.sleep(3)
        assert await counts(queues, "q") == [1]
        assert await queues.drain("q") == ["abcdef"]
        await asyncio.sleep(3)
        assert await queues.drain("q") == ["123456"]

    Rig().live(play)

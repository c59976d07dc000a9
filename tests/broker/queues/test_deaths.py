"""Every way in which a message can die, and where it is then; nothing is lost on the way."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from longhall.broker.checkpoint import checkpoint
from longhall.broker.queues.service import QueueService
from longhall.errors import Code, LonghallError
from longhall.queues.messages import Outgoing
from longhall.queues.redrive import SOURCE_GONE
from longhall.queues.settings import DeadLetters, QueueSettings
from tests.broker import desk as host
from tests.broker.desk import Life
from tests.broker.queues.letterbox import all_letters, cut_finely, fail, live, moved, receive, send

TO_DEAD = DeadLetters(queue="dead", attempts_max=2)


async def make(desk: QueueService, **settings: Any) -> None:
    await desk.create("dead", QueueSettings())
    await desk.create("work", QueueSettings(dead_letters=TO_DEAD, **settings))


async def dead(desk: QueueService) -> list[tuple[bytes, str, int]]:
    return [(one.body, one.reason, one.attempts) for one in await all_letters(desk, "dead")]


def test_too_many_attempts() -> None:
    async def play(life: Life, desk: QueueService) -> None:
        await make(desk)
        await send(desk, "work", b"body")
        await fail(desk, "work")
        assert await dead(desk) == [(b"body", "attempts", 2)]

    live(play)


@pytest.mark.parametrize("whose", ["queue", "message"])
def test_the_time_to_live_is_over(whose: str) -> None:
    async def play(life: Life, desk: QueueService) -> None:
        await make(desk, time_to_live_ms=50 if whose == "queue" else 0)
        await send(desk, "work", b"body", time_to_live_ms=50 if whose == "message" else -1)
        assert len(await receive(desk, "work", lease_ms=10)) == 1
        await asyncio.sleep(0.1)
        assert await receive(desk, "work") == []
        assert await dead(desk) == [(b"body", "expired", 1)]
        (letter,) = await all_letters(desk, "dead")
        assert [attempt.how for attempt in letter.history] == ["lapsed"]

    live(play)


def test_retention_ends_between_two_messages_of_one_segment() -> None:
    """The cleaner removes whole segments; a receiver gets nothing that is older than the retention all the same."""

    async def play(life: Life, desk: QueueService) -> None:
        await make(desk, retention_ms=60_000)
        await send(desk, "work", b"leased")
        await send(desk, "work", b"waiting")
        await receive(desk, "work", 1, lease_ms=10)
        await asyncio.sleep(40)
        await send(desk, "work", b"new")
        await asyncio.sleep(25)
        (given,) = await receive(desk, "work", 10)
        assert given.body == b"new"
        assert await dead(desk) == []
        (queue,) = [one for one in life.hall.queues.values() if one.entry.name == "work"]
        assert queue.deaths == {"retention": 2}
        assert queue.queue.state.messages == 1
        await asyncio.sleep(36)
        assert await receive(desk, "work", 10) == [], "the last one is too old by now"

    live(play)


def test_messages_expire_without_receivers() -> None:
    async def play(life: Life, desk: QueueService) -> None:
        desk.start()
        await make(desk)
        await send(desk, "work", b"1", b"2", time_to_live_ms=500)
        await send(desk, "work", b"lives")
        await send(desk, "work", b"behind", time_to_live_ms=500)
        await asyncio.sleep(3)
        assert await dead(desk) == [(b"1", "expired", 0), (b"2", "expired", 0)]
        (lives,) = await receive(desk, "work", 1)
        assert lives.body == b"lives"
        await asyncio.sleep(3)
        assert [one[0] for one in await dead(desk)] == [b"1", b"2", b"behind"]
        await desk.stop()

    live(play)


def test_returned_and_delayed_messages_expire() -> None:
    async def play(life: Life, desk: QueueService) -> None:
        desk.start()
        await make(desk)
        await send(desk, "work", b"1", time_to_live_ms=500)
        (one,) = await receive(desk, "work")
        await desk.change_lease("work", [(one.receipt, 0)])
        await send(desk, "work", b"2", time_to_live_ms=500, delay_ms=1000)
        await asyncio.sleep(4)
        assert await dead(desk) == [(b"1", "expired", 1), (b"2", "expired", 0)]
        await desk.stop()

    live(play)


def test_a_message_returned_several_times_dies_once() -> None:
    async def play(life: Life, desk: QueueService) -> None:
        await desk.create("dead", QueueSettings())
        await desk.create("work", QueueSettings(dead_letters=DeadLetters(queue="dead", attempts_max=9)))
        await send(desk, "work", b"1", b"2", time_to_live_ms=2000)
        for _ in range(4):
            for one in await receive(desk, "work"):
                await desk.change_lease("work", [(one.receipt, 0)])
        desk.start()
        await asyncio.sleep(4)
        assert await dead(desk) == [(b"1", "expired", 4), (b"2", "expired", 4)]
        await desk.stop()

    live(play)


def test_messages_that_expired_while_the_node_was_down_die_after_the_start() -> None:
    on = host.Desk()
    on.host.faults.cold_read_chance = 0.5

    async def before(life: Life, desk: QueueService) -> None:
        await make(desk)
        await desk.create("plain", QueueSettings())
        await send(desk, "plain", b"lives")
        await send(desk, "work", b"1", time_to_live_ms=500)
        await checkpoint(life.hall)
        await asyncio.sleep(1)

    async def after(life: Life, desk: QueueService) -> None:
        desk.start()
        await asyncio.sleep(3)
        assert await dead(desk) == [(b"1", "expired", 0)]
        plain = life.hall.running_queue("plain")
        assert plain is not None
        assert not plain.windows  # Whoever has nothing that expires is looked at once, and keeps nothing of it.
        await desk.stop()

    live(before, on)
    live(after, on)


def test_a_queue_over_its_length_drops_the_oldest() -> None:
    async def play(life: Life, desk: QueueService) -> None:
        await make(desk, messages_max=2, when_full="dead-letter")
        await send(desk, "work", b"1", b"2", b"3", b"4")
        assert await dead(desk) == [(b"1", "length", 0), (b"2", "length", 0)]
        await desk.delete("dead")
        (refusal,) = await desk.send("work", [Outgoing(body=b"5")])
        assert refusal.code is Code.QUEUE_FULL  # Nothing is dropped that should have become a letter.
        assert [one.body for one in await receive(desk, "work")] == [b"3", b"4"]

    live(play)


def test_drop_oldest_makes_no_dead_letters() -> None:
    async def play(life: Life, desk: QueueService) -> None:
        await make(desk, messages_max=2, when_full="drop-oldest")
        await send(desk, "work", b"1", b"2", b"3", b"4")
        assert await dead(desk) == []
        assert [one.body for one in await receive(desk, "work")] == [b"3", b"4"]

    live(play)


def test_the_oldest_are_dropped_from_disk_too() -> None:
    on = host.Desk()

    async def before(life: Life, desk: QueueService) -> None:
        await make(desk, messages_max=3, when_full="dead-letter")
        await send(desk, "work", b"1", b"2", b"3")
        await checkpoint(life.hall)

    async def after(life: Life, desk: QueueService) -> None:
        on.host.faults.cold_read_chance = 1.0
        await send(desk, "work", b"4")
        assert await dead(desk) == [(b"1", "length", 0)]

    live(before, on)
    live(after, on)


def test_messages_of_a_deleted_queue_go_to_its_dead_letter_queue() -> None:
    async def play(life: Life, desk: QueueService) -> None:
        await make(desk)
        await send(desk, "work", *[b"%d" % number for number in range(200)])
        taken = await receive(desk, "work", 3)
        await desk.settle("work", [taken[0].receipt])
        await desk.change_lease("work", [(taken[1].receipt, 0)])
        await send(desk, "work", b"soon", delay_ms=60_000)
        await send(desk, "work", b"later", delay_ms=90 * 24 * 3_600_000)
        await desk.delete("work")
        found = await all_letters(desk, "dead")
        assert {one.reason for one in found} == {"deleted"}
        assert {one.source for one in found} == {"work"}
        bodies = {b"%d" % number for number in range(200)} - {taken[0].body}
        assert len(found) == 201
        assert {one.body for one in found} == bodies | {b"soon", b"later"}
        attempts = {one.body: one.attempts for one in found}
        assert (attempts[taken[1].body], attempts[taken[2].body], attempts[b"199"], attempts[b"soon"]) == (1, 1, 0, 0)
        assert desk.view("work") is None
        with pytest.raises(LonghallError) as refusal:
            await desk.settle("work", [taken[2].receipt])
        assert refusal.value.code is Code.UNKNOWN_QUEUE
        with pytest.raises(LonghallError) as refusal:
            await desk.send("work", [Outgoing(body=b"late")])
        assert refusal.value.code is Code.UNKNOWN_QUEUE

    live(play)


def test_a_deleted_fifo_queue_drains_in_group_order() -> None:
    async def play(life: Life, desk: QueueService) -> None:
        await make(desk, fifo=True)
        for number in range(6):
            await send(desk, "work", b"%d" % number, group="ab"[number % 2])
        assert len(await receive(desk, "work", 1)) == 1  # Its group is blocked now.
        await desk.delete("work")
        bodies = [one.body for one in await all_letters(desk, "dead")]
        assert sorted(bodies) == [b"%d" % number for number in range(6)]
        assert [body for body in bodies if int(body) % 2] == [b"1", b"3", b"5"]

    live(play)


@pytest.mark.parametrize("letters", ["unwanted", "gone"])
def test_a_deletion_without_dead_letters_discards(letters: str) -> None:
    async def play(life: Life, desk: QueueService) -> None:
        await desk.create("dead", QueueSettings())
        wanted = DeadLetters(queue="dead", on_delete=letters != "unwanted")
        await desk.create("work", QueueSettings(dead_letters=wanted))
        await send(desk, "work", b"body")
        await send(desk, "work", b"delayed", delay_ms=1000)
        if letters == "gone":
            await desk.delete("dead")
            await desk.create("dead", QueueSettings())
            await desk.configure("work", QueueSettings(dead_letters=DeadLetters(queue="nowhere")))
        await desk.delete("work")
        assert await dead(desk) == []

    live(play)


def test_deleting_a_queue_over_a_topic_keeps_the_messages() -> None:
    async def play(life: Life, desk: QueueService) -> None:
        await desk.create("dead", QueueSettings())
        await desk.create("log", QueueSettings(settled="keep"))
        await send(desk, "log", b"kept")
        await desk.declare("cursor", "log", QueueSettings(dead_letters=TO_DEAD))
        await send(desk, "cursor", b"delayed", delay_ms=60_000)
        await desk.delete("cursor")
        assert await dead(desk) == [(b"delayed", "deleted", 0)]
        assert [one.body for one in await all_letters(desk, "log")] == [b"kept"]

    live(play)


def test_a_dead_letter_without_its_source_queue_stays() -> None:
    async def play(life: Life, desk: QueueService) -> None:
        await make(desk)
        await send(desk, "work", b"body")
        await fail(desk, "work")
        await desk.delete("work")
        desk.start()
        task = await desk.start_move("dead", "", 0)
        await moved(desk, "dead")
        (ended,) = desk.moves("dead")
        assert (ended.task_id, ended.state, ended.moved) == (task.task_id, "FAILED", 0)
        assert ended.failure == SOURCE_GONE
        assert await dead(desk) == [(b"body", "attempts", 2)]
        await desk.stop()

    live(play)


@pytest.mark.parametrize("seed", range(12))
def test_a_crash_during_a_deletion_leaves_every_message_in_one_queue(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    cut_finely(monkeypatch)
    on = host.Desk(seed=seed)

    async def before(life: Life, desk: QueueService) -> None:
        await make(desk)
        await send(desk, "work", *[b"%d" % number for number in range(300)])
        await receive(desk, "work", 2)
        await send(desk, "work", b"delayed", delay_ms=60_000)
        await checkpoint(life.hall)

    async def delete(life: Life, desk: QueueService) -> bool:
        on.host.faults.cut_after_changes = seed
        await desk.delete("work")
        return True

    async def after(life: Life, desk: QueueService) -> None:
        found = [one.body for one in await all_letters(desk, "dead")]
        if desk.view("work") is not None:
            assert not told
            found += [one.body for one in await all_letters(desk, "work")]
            delayed = desk.depth("work").delayed
            assert (b"delayed" in found) == (delayed == 0)
            found += [b"delayed"] * delayed
        assert sorted(found) == sorted([b"%d" % number for number in range(300)] + [b"delayed"])

    live(before, on)
    told = live(delete, on, end="cut")
    on.host.faults.cut_after_changes = -1
    live(after, on)

"""Dead letters for operators: their history, and edits."""

from __future__ import annotations

import asyncio

import pytest

from longhall.broker.checkpoint import checkpoint
from longhall.broker.queues.service import QueueService
from longhall.errors import Code
from longhall.queues.messages import Letter
from longhall.queues.settings import DeadLetters, QueueSettings
from tests.broker import desk as host
from tests.broker.desk import Life
from tests.broker.queues.letterbox import all_letters, cut_finely, fail, live, receive, refused, send

WORK = QueueSettings(dead_letters=DeadLetters(queue="dead", attempts_max=2))


def test_a_dead_letter_has_its_complete_history() -> None:
    async def play(life: Life, desk: QueueService) -> None:
        await desk.create("dead", QueueSettings())
        await desk.create("work", WORK)
        (sent,) = await send(desk, "work", b"body", attributes={"a": ("Number", b"1")}, group="g")
        began_ms = life.hall.time.now_ms()
        await receive(desk, "work", lease_ms=1000)
        await asyncio.sleep(1.5)  # Its lease lapses.
        (again,) = await receive(desk, "work")
        await asyncio.sleep(0.25)
        await desk.change_lease("work", [(again.receipt, 0)])
        assert await receive(desk, "work") == []
        await life.sync()
        letter = await desk.inspection.letter("dead", sent)
        assert (letter.body, letter.attributes, letter.group) == (b"body", {"a": ("Number", b"1")}, "g")
        assert (letter.reason, letter.source, letter.attempts) == ("attempts", "work", 2)
        assert letter.first_received_ms == began_ms
        assert [one.how for one in letter.history] == ["lapsed", "returned"]
        first, second = letter.history
        assert (first.received_ms, first.ended_ms) == (began_ms, began_ms + 1000)
        assert first.ended_ms < second.received_ms < second.ended_ms <= letter.died_ms
        assert letter.deaths == [f"{letter.died_ms} 2 attempts work"]

    live(play)


def test_the_history_survives_a_crash_and_a_checkpoint() -> None:
    on = host.Desk()

    async def play(life: Life, desk: QueueService) -> None:
        await desk.create("dead", QueueSettings())
        await desk.create("work", WORK)
        await send(desk, "work", b"body")
        (one,) = await receive(desk, "work")
        await desk.change_lease("work", [(one.receipt, 0)])
        await checkpoint(life.hall)

    async def rest(life: Life, desk: QueueService) -> list[str]:
        (one,) = await receive(desk, "work")
        await desk.change_lease("work", [(one.receipt, 0)])
        await receive(desk, "work")
        (letter,) = await all_letters(desk, "dead")
        return [attempt.how for attempt in letter.history]

    live(play, on, end="cut")
    assert live(rest, on) == ["returned", "returned"]


def test_only_the_last_attempts_are_stored_but_all_are_counted() -> None:
    async def play(life: Life, desk: QueueService) -> Letter:
        await desk.create("dead", QueueSettings())
        await desk.create("work", QueueSettings(dead_letters=DeadLetters(queue="dead", attempts_max=20)))
        await send(desk, "work", b"body")
        await fail(desk, "work", 20)
        (letter,) = await all_letters(desk, "dead")
        return letter

    letter = live(play)
    assert letter.attempts == 20
    assert len(letter.history) == 16


def test_pages_show_every_message_once_and_none_that_is_settled() -> None:
    async def play(life: Life, desk: QueueService) -> None:
        await desk.create("q", QueueSettings(partitions=2))
        await send(desk, "q", *[b"%d" % number for number in range(20)])
        taken = await receive(desk, "q", 6)
        await desk.settle("q", [one.receipt for one in taken[:3]])
        for count in (1, 7, 100):
            found = await all_letters(desk, "q", count)
            bodies = sorted(int(letter.body) for letter in found)
            assert bodies == sorted(set(range(20)) - {int(one.body) for one in taken[:3]})
            assert sorted(letter.message_id for letter in found if letter.leased) == sorted(
                one.message_id for one in taken[3:]
            )
        assert await refused(desk.inspection.letters("q", 0)) is Code.INVALID_REQUEST
        assert await refused(desk.inspection.letters("q", 10, "999:1")) is Code.INVALID_REQUEST
        assert await refused(desk.inspection.letters("q", 10, "x")) is Code.INVALID_REQUEST

    live(play)


def test_an_edited_letter_replaces_the_old_one() -> None:
    async def play(life: Life, desk: QueueService) -> None:
        await desk.create("dead", QueueSettings())
        await desk.create("work", WORK)
        ids = await send(desk, "work", b"one", b"two", b"three", attributes={"a": ("String", b"x")})
        await fail(desk, "work")
        await life.sync()
        edited = await desk.inspection.edit_letter("dead", ids[1], b"2", {"b": ("Number", b"7")})
        assert (edited.message_id, edited.body) == (ids[1], b"2")
        found = {letter.message_id: letter for letter in await all_letters(desk, "dead")}
        assert {letter.body for letter in found.values()} == {b"one", b"2", b"three"}
        after = found[ids[1]]
        assert after == edited
        assert after.attributes == {"b": ("Number", b"7")}
        assert (after.reason, after.source, after.attempts) == ("attempts", "work", 2)
        assert [one.how for one in after.history] == ["returned", "returned"]
        only_body = await desk.inspection.edit_letter("dead", ids[0], b"1")
        assert (only_body.body, only_body.attributes) == (b"1", {"a": ("String", b"x")})
        assert desk.depth("dead").available == 3
        assert sorted(one.body for one in await receive(desk, "dead")) == [b"1", b"2", b"three"]

    live(play)


def test_invalid_edits_are_refused_and_change_nothing() -> None:
    async def play(life: Life, desk: QueueService) -> None:
        await desk.create("q", QueueSettings(message_bytes_max=1024))
        (sent,) = await send(desk, "q", b"body")
        assert await refused(desk.inspection.edit_letter("q", "nobody", b"x")) is Code.UNKNOWN_MESSAGE
        assert await refused(desk.inspection.edit_letter("q", sent, bytes(1025))) is Code.MESSAGE_TOO_LARGE
        reserved = {"longhall.id": ("String", b"x")}
        assert await refused(desk.inspection.edit_letter("q", sent, None, reserved)) is Code.INVALID_REQUEST
        (one,) = await receive(desk, "q")
        assert await refused(desk.inspection.edit_letter("q", sent, b"x")) is Code.MESSAGE_LEASED
        await desk.settle("q", [one.receipt])
        assert await refused(desk.inspection.edit_letter("q", sent, b"x")) is Code.UNKNOWN_MESSAGE
        assert await refused(desk.inspection.letter("q", sent)) is Code.UNKNOWN_MESSAGE
        assert await refused(desk.inspection.letters("nowhere")) is Code.UNKNOWN_QUEUE

    live(play)


def test_a_message_behind_many_others_can_be_edited_and_the_order_stays() -> None:
    async def play(life: Life, desk: QueueService) -> None:
        await desk.create("q", QueueSettings())
        ids = await send(desk, "q", *[b"%d" % number for number in range(30)])
        await desk.inspection.edit_letter("q", ids[20], b"edited")
        found: list[bytes] = []
        while got := await receive(desk, "q"):
            found.extend(one.body for one in got)
            await desk.settle("q", [one.receipt for one in got])
        assert found == [b"%d" % number for number in range(30) if number != 20] + [b"edited"]

    live(play)


@pytest.mark.parametrize("changes", range(5))
@pytest.mark.parametrize("seed", range(4))
def test_a_crash_during_an_edit_leaves_the_old_or_the_new_letter(
    changes: int, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    cut_finely(monkeypatch)
    on = host.Desk(seed=seed)

    async def before(life: Life, desk: QueueService) -> str:
        await desk.create("q", QueueSettings())
        ids = await send(desk, "q", b"first", b"old", b"last")
        await checkpoint(life.hall)
        return ids[1]

    async def edit(life: Life, desk: QueueService) -> bool:
        on.host.faults.cut_after_changes = changes
        await desk.inspection.edit_letter("q", message_id, b"new")
        return True

    async def after(life: Life, desk: QueueService) -> list[bytes]:
        return sorted(letter.body for letter in await all_letters(desk, "q"))

    message_id = live(before, on)
    told = live(edit, on, end="cut")
    on.host.faults.cut_after_changes = -1
    found = live(after, on)
    assert found == [b"first", b"last", b"new"] or (not told and found == [b"first", b"last", b"old"])

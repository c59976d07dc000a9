"""What arrives for a deleted queue becomes a dead letter, if the queue has `dead_letters.after_delete`."""

from __future__ import annotations

import asyncio

import pytest

from longhall.broker.checkpoint import checkpoint
from longhall.errors import Code, LonghallError
from longhall.queues.messages import Outgoing
from longhall.queues.settings import DeadLetters, QueueSettings
from tests.broker.queues.rig import Queues, Rig

AFTER = DeadLetters(queue="dead", attempts_max=1, after_delete=True)


async def begin(queues: Queues, letters: DeadLetters = AFTER) -> None:
    await queues.desk.create("dead", QueueSettings())
    await queues.desk.create("q", QueueSettings(dead_letters=letters))


async def refused(queues: Queues) -> Code:
    with pytest.raises(LonghallError) as caught:
        await queues.desk.send("q", [Outgoing(body=b"late")])
    return caught.value.code


@pytest.mark.parametrize("kept", ["in memory", "in the log", "in a snapshot"])
def test_what_arrives_for_a_deleted_queue_is_a_dead_letter(kept: str) -> None:
    rig = Rig()

    async def delete(queues: Queues) -> None:
        await begin(queues, DeadLetters(queue="dead", attempts_max=1, after_delete=True))
        await queues.send("q", "before")
        await queues.desk.delete("q")
        if kept == "in a snapshot":
            await checkpoint(queues.life.hall)
        if kept == "in memory":
            await look(queues)

    async def look(queues: Queues) -> None:
        await queues.send("q", "late", group="g")
        found = await queues.receive("dead")
        assert [one.body for one in found] == [b"before", b"late"]
        assert [(one.dead_letter_source, one.dead_letter_reason) for one in found] == [("q", "deleted")] * 2
        await queues.desk.create("q", QueueSettings())
        await queues.send("q", "new")
        assert await queues.drain("q") == ["new"]
        await queues.desk.delete("q")  # The new queue does not want it.
        assert await refused(queues) is Code.UNKNOWN_QUEUE

    rig.live(delete)
    if kept != "in memory":
        rig.live(look)


def test_without_the_setting_a_send_is_refused() -> None:
    async def play(queues: Queues) -> None:
        await begin(queues, DeadLetters(queue="dead"))
        await queues.desk.delete("q")
        assert await refused(queues) is Code.UNKNOWN_QUEUE

    Rig().live(play)


def test_answers_reports_and_dead_letters_find_their_way() -> None:
    async def play(queues: Queues) -> None:
        await begin(queues)
        letters = DeadLetters(queue="q", attempts_max=1)
        await queues.desk.create("work", QueueSettings(dead_letters=letters))
        await queues.send("work", "question", reply_to="q", correlation_id="c")
        await queues.send("work", "reported", reply_to="q", report_fate=True)
        await queues.send("work", "poison")
        question, reported, poison = await queues.receive("work")
        await queues.desk.delete("q")
        answered = await queues.desk.answer("work", question.receipt, Outgoing(body=b"answer"))
        assert answered.message_id
        assert await queues.desk.settle("work", [reported.receipt]) == [None]
        await queues.desk.change_lease("work", [(poison.receipt, 0)])
        assert await queues.bodies("work") == []
        await asyncio.sleep(1)
        found = await queues.receive("dead")
        assert [one.body for one in found][0::2] == [b"answer", b"poison"]
        assert b'"settled"' in found[1].body
        assert found[0].correlation_id == "c"
        assert found[0].dead_letter_source == "q"
        assert found[2].dead_letter_source == "work"

    Rig().live(play)


def test_a_full_dead_letter_queue_refuses() -> None:
    async def play(queues: Queues) -> None:
        await queues.desk.create("dead", QueueSettings(messages_max=1))
        await queues.desk.create("q", QueueSettings(dead_letters=AFTER))
        await queues.desk.delete("q")
        await queues.send("q", "one")
        (full,) = await queues.desk.send("q", [Outgoing(body=b"two")])
        assert full.code is Code.QUEUE_FULL

    Rig().live(play)

"""Retries: waits that grow, a topic that shows what waits, and dead letters at the end."""

from __future__ import annotations

import asyncio

from longhall.broker.queues.service import QueueService
from longhall.errors import Code
from longhall.queues.envelope import decode_record, due_of
from longhall.queues.settings import DeadLetters, QueueSettings, RetryPolicy
from tests.broker import desk as host
from tests.broker.desk import Life
from tests.broker.queues.letterbox import all_letters, live, receive, records, refused, send

RETRY = QueueSettings(
    retry=RetryPolicy(first_ms=1000, factor=2.0, longest_ms=60_000),
    dead_letters=DeadLetters(queue="dead", attempts_max=3),
)


async def fail_once(desk: QueueService) -> int:
    """How many messages there were to fail."""
    found = await receive(desk, "work")
    for one in found:
        assert await desk.change_lease("work", [(one.receipt, 0)]) == [None]
    return len(found)


def test_messages_in_a_retry_delay_are_in_the_retry_topic() -> None:
    async def play(life: Life, desk: QueueService) -> None:
        await desk.create("dead", QueueSettings())
        await desk.create("work", RETRY)
        assert records(life, "work.retry") == []
        assert life.hall.topic("work.retry") is not None  # Readers may subscribe before anything fails.
        (sent,) = await send(desk, "work", b"body", key=b"k", attributes={"a": ("Number", b"7")})
        now_ms = life.hall.time.now_ms()
        assert await fail_once(desk) == 1
        (waiting,) = records(life, "work.retry")
        assert (waiting.key, waiting.value) == (b"k", b"body")
        headers = dict(waiting.headers)
        assert (headers["a"], headers["longhall.type.a"]) == (b"7", b"Number")
        assert (headers["longhall.retry-source"], headers["longhall.attempts"]) == (b"work", b"1")
        assert decode_record(waiting, 0).message_id == sent
        assert now_ms + 1000 <= due_of(waiting) <= now_ms + 1010
        assert await fail_once(desk) == 0
        await asyncio.sleep(1.1)
        assert await fail_once(desk) == 1
        assert [dict(one.headers)["longhall.attempts"] for one in records(life, "work.retry")] == [b"1", b"2"]

    live(play)


def test_the_last_failed_attempt_dead_letters_at_once_with_history() -> None:
    async def play(life: Life, desk: QueueService) -> None:
        await desk.create("dead", QueueSettings())
        await desk.create("work", RETRY)
        await send(desk, "work", b"body")
        for wait_s in (1.1, 2.1, 0.0):
            assert await fail_once(desk) == 1
            await asyncio.sleep(wait_s)
        (letter,) = await all_letters(desk, "dead")
        assert (letter.reason, letter.attempts) == ("attempts", 3)
        assert [one.how for one in letter.history] == ["returned"] * 3
        waits = [
            later.received_ms - one.ended_ms for one, later in zip(letter.history, letter.history[1:], strict=False)
        ]
        assert waits[0] >= 1000
        assert waits[1] >= 2000
        assert len(records(life, "work.retry")) == 2
        assert desk.depth("work").in_flight == 0

    live(play)


def test_without_a_policy_there_is_no_topic_and_no_delay() -> None:
    async def play(life: Life, desk: QueueService) -> None:
        await desk.create("work", QueueSettings())
        await send(desk, "work", b"body")
        assert await fail_once(desk) == 1
        assert await fail_once(desk) == 1
        assert life.hall.topic("work.retry") is None

    live(play)


def test_a_later_policy_creates_its_topic() -> None:
    async def play(life: Life, desk: QueueService) -> None:
        await desk.create("work", QueueSettings())
        await desk.configure("work", QueueSettings(retry=RetryPolicy(first_ms=500)))
        assert life.hall.topic("work.retry") is not None
        await desk.delete("work")
        assert life.hall.topic("work.retry") is not None  # It outlives the queue, as its retention says.

    live(play)


def test_a_name_too_long_for_the_side_topic_is_refused_first() -> None:
    async def play(life: Life, desk: QueueService) -> None:
        name = "q" * 245
        assert await refused(desk.create(name, RETRY)) is Code.INVALID_CONFIGURATION
        await desk.create(name, QueueSettings())
        audited = QueueSettings(audit="deliveries")
        assert await refused(desk.configure(name, audited)) is Code.INVALID_CONFIGURATION
        view = desk.view(name)
        assert view is not None
        assert view.settings.audit == "off"

    live(play)


def test_the_retry_delay_and_its_record_survive_a_crash() -> None:
    on = host.Desk()

    async def before(life: Life, desk: QueueService) -> None:
        await desk.create("dead", QueueSettings())
        await desk.create("work", RETRY)
        await send(desk, "work", b"body")
        assert await fail_once(desk) == 1

    async def after(life: Life, desk: QueueService) -> None:
        assert len(records(life, "work.retry")) == 1
        assert await receive(desk, "work") == []
        await asyncio.sleep(1.1)
        (again,) = await receive(desk, "work")
        assert again.attempts == 2

    live(before, on, end="cut")
    live(after, on)

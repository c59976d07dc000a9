"""Retry queues: every send is a failed attempt, whose number and delay survive crashes."""

from __future__ import annotations

import asyncio

from longhall.queues.envelope import decode_record
from longhall.queues.settings import DeadLetters, QueueSettings, RetryPolicy
from longhall.records.batch import build_batch, read_records
from longhall.records.record import Record
from tests.broker.desk import stored_batches
from tests.broker.queues.rig import Queues, Rig

RETRY = QueueSettings(
    retry=RetryPolicy(first_ms=1000, factor=2.0, sends=True), dead_letters=DeadLetters(queue="dead", attempts_max=3)
)


async def failed(queues: Queues, record: Record) -> None:
    """Send a record to the retry queue, as a Kafka consumer does that could not process it."""
    sent = await queues.life.send(queues.life.partition("work"), build_batch([record]))
    assert sent.code is None, sent.message


def newest(queues: Queues, topic: str) -> Record:
    _, batch = stored_batches(queues.life.partition(topic))[-1]
    return read_records(batch, 0)[-1]


def again(record: Record) -> Record:
    return Record(-1, record.timestamp_ms, record.key, record.value, record.headers)


def test_attempts_are_counted_over_crashes() -> None:
    rig = Rig()

    async def first(queues: Queues) -> None:
        await queues.desk.create("dead", QueueSettings())
        await queues.desk.create("work", RETRY)
        await failed(queues, Record(-1, queues.life.hall.time.now_ms(), b"k", b"body", (("trace", b"t"),)))
        assert queues.desk.depth("work").delayed == 1

    async def second(queues: Queues) -> None:
        assert queues.desk.depth("work").delayed == 1
        await asyncio.sleep(1.1)
        found = newest(queues, "work")
        assert (found.key, found.value, decode_record(found, 0).attempts) == (b"k", b"body", 1)
        await failed(queues, again(found))

    async def third(queues: Queues) -> None:
        await asyncio.sleep(1.1)
        assert queues.desk.depth("work").delayed == 1  # Two seconds, this time.
        await asyncio.sleep(1.1)
        found = newest(queues, "work")
        assert decode_record(found, 0).attempts == 2
        await failed(queues, again(found))

    async def fourth(queues: Queues) -> None:
        assert queues.desk.depth("work").delayed == 0
        (letter,) = await queues.receive("dead")
        assert (letter.body, letter.key, letter.attempts_before) == (b"body", b"k", 3)
        assert (letter.dead_letter_source, letter.dead_letter_reason) == ("work", "attempts")
        assert letter.attributes["trace"] == ("String", b"t")

    for play in (first, second, third):
        rig.live(play, end="cut")
    rig.live(fourth)


def test_without_a_dead_letter_queue_retries_go_on() -> None:
    async def play(queues: Queues) -> None:
        await queues.desk.create("work", RETRY)
        await failed(queues, Record(-1, 1, None, b"body", (("longhall.attempts", b"7"),)))
        assert queues.desk.depth("work").delayed == 1

    Rig().live(play)

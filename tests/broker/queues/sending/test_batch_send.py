"""The messages of one call are one batch, and each has its own result."""

from __future__ import annotations

import asyncio

from longhall.broker.topic_administration import configure_topic
from longhall.errors import Code
from longhall.queues.messages import Outgoing
from longhall.queues.settings import QueueSettings
from longhall.records.batch import parse_header
from tests.broker.queues.rig import Queues, Rig


def outgoing(*bodies: str, **fields: str) -> list[Outgoing]:
    return [Outgoing(body=body.encode(), **fields) for body in bodies]  # type: ignore[arg-type]


def test_the_messages_of_one_call_are_one_batch_in_their_order() -> None:
    rig = Rig()

    async def first(queues: Queues) -> None:
        await queues.desk.create("q", QueueSettings())
        answers = await queues.desk.send("q", outgoing("a", "b", "c"))
        assert len({answer.message_id for answer in answers}) == 3
        partition = queues.life.partition("q")
        read = partition.log.read(0, 1 << 20, partition.high_watermark)
        assert parse_header(b"".join(read.buffers), 0).record_count == 3
        deliveries = await queues.receive("q", 10)
        assert [one.message_id for one in deliveries] == [answer.message_id for answer in answers]
        assert [one.body for one in deliveries] == [b"a", b"b", b"c"]
        await queues.desk.settle("q", [deliveries[1].receipt])

    async def last(queues: Queues) -> None:
        page = await queues.desk.inspection.peek("q", 10)
        assert [seen.delivery.body for seen in page.messages] == [b"a", b"c"]

    rig.live(first)
    rig.live(last)


def test_a_repeat_within_one_call_gets_the_first_reply() -> None:
    rig = Rig()

    async def play(queues: Queues) -> None:
        await queues.desk.create("q", QueueSettings(deduplication="content"))
        one, two, again = await queues.desk.send("q", outgoing("a", "b", "a"))
        assert (one.repeated, two.repeated, again.repeated) == (False, False, True)
        assert again.message_id == one.message_id
        assert await queues.bodies("q") == ["a", "b"]

    rig.live(play)


def test_a_too_large_message_is_refused_and_the_others_are_accepted() -> None:
    rig = Rig()

    async def play(queues: Queues) -> None:
        await queues.desk.create("q", QueueSettings(message_bytes_max=1024))
        answers = await queues.desk.send("q", outgoing("a", "b" * 2000, "c"))
        assert [answer.code for answer in answers] == [None, Code.MESSAGE_TOO_LARGE, None]
        assert await queues.bodies("q") == ["a", "c"]

    rig.live(play)


def test_a_delayed_message_in_a_batch_waits_alone() -> None:
    rig = Rig()

    async def play(queues: Queues) -> None:
        await queues.desk.create("q", QueueSettings())
        messages = outgoing("a", "later", "b")
        messages[1].delay_ms = 60_000
        await queues.desk.send("q", messages)
        assert await queues.bodies("q") == ["a", "b"]
        assert queues.desk.depth("q").delayed == 1

    rig.live(play)


def test_messages_over_the_quota_are_refused_and_the_rest_is_accepted() -> None:
    rig = Rig()

    async def play(queues: Queues) -> None:
        hall = queues.life.hall
        await queues.desk.create("q", QueueSettings())
        await queues.desk.create("bounded", QueueSettings(messages_max=100))
        for name in ("q", "bounded"):
            topic = hall.topic(name)
            assert topic is not None
            await configure_topic(hall, name, {**topic.configuration, "longhall.quota.messages.per.second": "2"})
            answers = await queues.desk.send(name, outgoing("a", "b", "c", "d", "e"))
            assert [answer.code for answer in answers] == [None, None, None, Code.OVER_QUOTA, Code.OVER_QUOTA]
            assert "500 ms" in answers[-1].message
            await asyncio.sleep(0.6)
            (answer,) = await queues.desk.send(name, outgoing("f"))
            assert answer.code is None
            assert await queues.bodies(name) == ["a", "b", "c", "f"]

    rig.live(play)

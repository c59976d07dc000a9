"""Settings of a queue that no other test shows, each by what senders and receivers notice."""

from __future__ import annotations

import asyncio

from longhall.broker.send import send
from longhall.broker.topic_administration import create_topic
from longhall.errors import Code
from longhall.queues.messages import Outgoing
from longhall.queues.settings import QueueSettings
from longhall.records.batch import Record, build_batch
from tests.broker.queues.rig import Queues, Rig


def test_a_repeat_after_the_window_is_a_new_message() -> None:
    async def play(queues: Queues) -> None:
        settings = QueueSettings(deduplication="id", deduplication_window_ms=60_000)
        await queues.desk.create("q", settings)
        await queues.send("q", "one", deduplication_id="x")
        await queues.send("q", "one", deduplication_id="x")
        assert await queues.drain("q") == ["one"]
        await asyncio.sleep(61)
        await queues.send("q", "two", deduplication_id="x")
        assert await queues.drain("q") == ["two"]

    Rig().live(play)


def test_a_repeated_send_is_answered_or_refused() -> None:
    async def play(queues: Queues) -> None:
        for repeated_sends in ("answer", "refuse"):
            settings = QueueSettings(deduplication="id", repeated_sends=repeated_sends)
            await queues.desk.create(repeated_sends, settings)
            [first] = await queues.send(repeated_sends, "one", deduplication_id="x")
            [again] = await queues.desk.send(repeated_sends, [Outgoing(body=b"one", deduplication_id="x")])
            if repeated_sends == "answer":
                assert (again.code, again.message_id) == (None, first)
            else:
                assert again.code is Code.REPEATED_SEND
            assert await queues.drain(repeated_sends) == ["one"]

    Rig().live(play)


def test_one_by_one_delivers_after_the_settle() -> None:
    async def play(queues: Queues) -> None:
        await queues.desk.create("q", QueueSettings(one_by_one=True))
        await queues.send("q", "a", "b")
        [first] = await queues.receive("q")
        assert await queues.receive("q") == []
        await queues.desk.settle("q", [first.receipt])
        assert await queues.bodies("q") == ["b"]

    Rig().live(play)


def test_fair_shares_by_group_can_be_turned_off() -> None:
    """With `fair`, a group with much in flight yields; without it the order of arrival decides."""

    async def play(queues: Queues) -> None:
        for fair in (True, False):
            name = f"fair-{fair}"
            await queues.desk.create(name, QueueSettings(fair=fair))
            for number in range(40):
                await queues.send(name, f"loud {number}", group="loud")
            await queues.send(name, "quiet", group="quiet")
            taken = [await queues.bodies(name, 1) for _ in range(30)]
            assert (["quiet"] in taken) is fair

    Rig().live(play)


def test_a_queue_over_a_topic_has_only_what_its_filter_matches() -> None:
    async def play(queues: Queues) -> None:
        hall = queues.life.hall
        await create_topic(hall, "t", 1, {})
        settings = QueueSettings(filter="city = 'Oslo'")
        await queues.desk.declare("q", "t", settings)
        for city in ("Oslo", "Rome", "Oslo"):
            record = Record(-1, hall.time.now_ms(), None, city.encode(), (("city", city.encode()),))
            batch = build_batch([record])
            assert send(hall, queues.life.partition("t"), batch, 0, len(batch), None).code is None
        await queues.life.sync()
        assert await queues.drain("q") == ["Oslo", "Oslo"]

    Rig().live(play)


def test_a_queue_has_the_partitions_that_were_asked_for() -> None:
    async def play(queues: Queues) -> None:
        await queues.desk.create("q", QueueSettings(partitions=3))
        topic = queues.life.hall.topic("q")
        assert topic is not None
        assert len(topic.partitions) == 3
        await queues.send("q", "a", "b", "c")
        assert sorted(await queues.drain("q")) == ["a", "b", "c"]

    Rig().live(play)

"""Queues over topics: with a filter only what fits stands in them; retention follows the queue's settings."""

from __future__ import annotations

import asyncio

import msgspec
import pytest

from longhall.broker.checkpoint import checkpoint
from longhall.broker.feature_gates import QUEUE_RULES_LEVEL
from longhall.broker.log_cleaner import LogCleaner
from longhall.errors import Code, LonghallError
from longhall.queues.settings import DeadLetters, DeliveryHours, DeliveryWindow, QueueSettings, RetryPolicy
from longhall.shards.replica import Replica
from tests.broker.queues.rig import KEEP, Queues, Rig

OSLO = QueueSettings(filter="city = 'Oslo'")


NEWER = {
    "late_stamped": QueueSettings(late_stamped="head"),
    "profile": QueueSettings(profile="latency"),
    "delivery=exactly-once": QueueSettings(delivery="exactly-once", deduplication="id"),
    "dead_letters.after_delete": QueueSettings(dead_letters=DeadLetters(queue="dead", after_delete=True)),
    "retry.lapsed": QueueSettings(retry=RetryPolicy(lapsed=True)),
    "retry.sends": QueueSettings(retry=RetryPolicy(sends=True)),
    "hours.also": QueueSettings(
        hours=DeliveryHours(from_minute=0, to_minute=60, also=(DeliveryWindow(from_minute=90, to_minute=99),))
    ),
    "hours.zone": QueueSettings(hours=DeliveryHours(from_minute=0, to_minute=60, zone="Europe/Oslo")),
}


@pytest.mark.parametrize("name", NEWER)
def test_settings_that_an_older_leader_would_ignore_need_their_feature_level(name: str) -> None:
    async def play(queues: Queues) -> None:
        hall = queues.life.hall
        await queues.desk.create("dead", QueueSettings())
        await queues.desk.create("plain", QueueSettings())
        hall.replica = Replica(1)
        hall.feature_level = QUEUE_RULES_LEVEL - 1
        with pytest.raises(LonghallError, match="longhall cluster upgrade") as refused:
            await queues.desk.create("new", NEWER[name])
        assert refused.value.code is Code.INVALID_CONFIGURATION
        assert str(refused.value).startswith(f"{name} of a queue")
        if name != "late_stamped":
            with pytest.raises(LonghallError, match="longhall cluster upgrade"):
                await queues.desk.configure("plain", NEWER[name])
        assert hall.running_queue("new") is None
        hall.feature_level = QUEUE_RULES_LEVEL
        await queues.desk.create("new", NEWER[name])
        hall.feature_level = QUEUE_RULES_LEVEL - 1
        changed = msgspec.structs.replace(NEWER[name], lease_ms=5_000)
        await queues.desk.configure("new", changed)  # What it has may stay.
        hall.replica = None

    Rig().live(play)


def test_a_queue_over_a_topic_has_only_matching_messages() -> None:
    rig = Rig()

    async def first(queues: Queues) -> None:
        await queues.desk.create("all", QueueSettings())
        await queues.send("all", "r1", attributes={"city": "Rome"})
        await queues.send("all", "o1", attributes={"city": "Oslo"})
        await queues.desk.declare("oslo", "all", OSLO)
        await queues.send("all", "r2", attributes={"city": "Rome"})
        await queues.send("all", "o2", attributes={"city": "Oslo"})
        assert await queues.bodies("oslo", 1) == ["o1"]

    async def second(queues: Queues) -> None:
        assert await queues.drain("oslo") == ["o2"]
        assert await queues.drain("all") == ["r1", "o1", "r2", "o2"]
        await queues.desk.configure("oslo", msgspec.structs.replace(OSLO, filter=""))
        await queues.send("all", "r3", attributes={"city": "Rome"})
        assert await queues.drain("oslo") == ["r3"]

    rig.live(first)
    rig.live(second)


def test_a_fork_may_have_a_filter() -> None:
    async def play(queues: Queues) -> None:
        await queues.desk.create("q", KEEP)
        await queues.send("q", "r1", attributes={"city": "Rome"})
        await queues.send("q", "o1", attributes={"city": "Oslo"})
        await queues.drain("q")
        await queues.desk.fork("q", "oslo", "start", OSLO)
        assert await queues.drain("oslo") == ["o1"]

    Rig().live(play)


def test_misplaced_and_invalid_filters_are_refused() -> None:
    async def play(queues: Queues) -> None:
        desk = queues.desk
        assert await queues.refused(desk.create("q", OSLO)) is Code.INVALID_CONFIGURATION
        await desk.create("q", QueueSettings())
        assert await queues.refused(desk.configure("q", OSLO)) is Code.INVALID_CONFIGURATION
        wrong = QueueSettings(filter="city =")
        assert await queues.refused(desk.declare("d", "q", wrong)) is Code.INVALID_REQUEST
        await desk.declare("d", "q", OSLO)
        assert await queues.refused(desk.configure("d", wrong)) is Code.INVALID_REQUEST

    Rig().live(play)


def test_settled_messages_are_kept_until_retention() -> None:
    rig = Rig()
    settings = msgspec.structs.replace(KEEP, retention_ms=600_000, messages_max=4, priorities=2)

    async def first(queues: Queues) -> None:
        await queues.desk.create("q", settings)
        await queues.send("q", "old")
        await queues.send("q", "old and urgent", priority=1)
        await queues.drain("q")
        await queues.send("q", "old and never looked at")
        await asyncio.sleep(500)
        await queues.send("q", "new", "new too")
        await queues.desk.rewind("q", "start")
        await LogCleaner(queues.life.hall).run()
        seen = await queues.desk.inspection.peek("q", 10)
        assert [one.delivery.body.decode() for one in seen.messages] == [
            "old and urgent",
            "old",
            "old and never looked at",
            "new",
            "new too",
        ]
        await asyncio.sleep(200)
        await LogCleaner(queues.life.hall).run()
        assert queues.desk.depth("q").available == 2

    async def second(queues: Queues) -> None:
        assert await queues.drain("q") == ["new", "new too"]
        await queues.desk.rewind("q", "start")
        assert await queues.drain("q") == ["new", "new too"]

    rig.live(first)
    rig.live(second)


def test_retention_frees_room_in_a_full_queue() -> None:
    async def play(queues: Queues) -> None:
        await queues.desk.create("q", QueueSettings(retention_ms=600_000, messages_max=2))
        await queues.send("q", "a", "b")
        await asyncio.sleep(700)
        await LogCleaner(queues.life.hall).run()
        assert queues.desk.depth("q").available == 0
        await queues.send("q", "c", "d")
        assert await queues.drain("q") == ["c", "d"]

    Rig().live(play)


def test_changed_retention_applies_at_once() -> None:
    rig = Rig()

    async def first(queues: Queues) -> None:
        await queues.desk.create("q", msgspec.structs.replace(KEEP, retention_ms=3_600_000))
        assert queues.life.partition("q").options.retention_ms == 3_600_000
        await queues.desk.configure("q", msgspec.structs.replace(KEEP, retention_ms=60_000))

    async def second(queues: Queues) -> None:
        assert queues.life.partition("q").options.retention_ms == 60_000

    rig.live(first)
    rig.live(second)


def test_the_sources_of_a_dead_letter_queue_survive_a_restart() -> None:
    rig = Rig()

    def letters(queue: str) -> QueueSettings:
        return QueueSettings(dead_letters=DeadLetters(queue=queue))

    async def play(queues: Queues) -> None:
        desk = queues.desk
        for name in ("dead", "other"):
            await desk.create(name, QueueSettings())
        for name in ("b", "a", "c"):
            await desk.create(name, letters("dead"))
        assert desk.sources("dead") == ["a", "b", "c"]
        await desk.configure("b", letters("other"))
        await desk.configure("c", QueueSettings())
        assert (desk.sources("dead"), desk.sources("other")) == (["a"], ["b"])

    async def look(queues: Queues) -> None:
        desk = queues.desk
        assert (desk.sources("dead"), desk.sources("other"), desk.sources("a")) == (["a"], ["b"], [])
        await checkpoint(queues.life.hall)

    async def remove(queues: Queues) -> None:
        desk = queues.desk
        assert (desk.sources("dead"), desk.sources("other")) == (["a"], ["b"])
        await desk.delete("a")
        assert desk.sources("dead") == []

    rig.live(play)
    rig.live(look)
    rig.live(remove)

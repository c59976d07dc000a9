"""Audits of queues in one replication group: the audit topic is in the group of its queue, with the hall's topic id."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from longhall.broker import feature_gates
from longhall.broker.topic_administration import configure_topic, create_topic, delete_topic
from longhall.cluster.placement.topic_operations import ListTopics
from longhall.errors import Code, LonghallError
from longhall.queues.settings import DeadLetters, QueueSettings
from longhall.shards.replica import Replica
from tests.broker.desk import Life
from tests.broker.queues.letterbox import audit
from tests.service.house import House, live

AUDITED = QueueSettings(placement="share", audit="deliveries")
TOPIC = "q.deliveries"


async def refused(work: Any) -> Code:
    with pytest.raises(LonghallError) as caught:
        await work
    return caught.value.code


def kinds(life: Life, queue: str = "q") -> list[str]:
    return [one.kind for one in audit(life, queue)]


def settings_of(house: House, queue: str) -> QueueSettings:
    view = house.queues.view(queue)
    assert view is not None
    return view.settings


def ids(house: House, group: int, name: str = TOPIC) -> set[bytes]:
    """The ids of a topic in the catalogue and in a group; one if they agree."""
    there, here = house.wings[group].hall.topic(name), house.main.hall.topic(name)
    return {topic.topic_id for topic in (there, here) if topic is not None}


def test_the_audit_topic_of_a_queue_is_in_its_group() -> None:
    async def play(house: House) -> None:
        house.reach.share = 2
        await house.queues.create("q", AUDITED)
        topic = house.main.hall.topic(TOPIC)
        assert topic is not None
        assert topic.options.wings == [2]
        assert ids(house, 2) == {topic.topic_id}
        assert house.wings[1].hall.topic(TOPIC) is None
        await house.send("q", b"a", b"b")
        first, second = await house.receive("q")
        assert await house.queues.settle("q", [first.receipt]) == [None]
        assert await house.queues.change_lease("q", [(second.receipt, 0)]) == [None]
        assert kinds(house.wings[2]) == ["delivered", "delivered", "settled", "returned"]
        await house.queues.purge("q")
        assert kinds(house.wings[2])[-1] == "purged"
        assert house.main.partition(TOPIC).log.next_offset == 0, "the hall stores nothing of it"
        await configure_topic(house.main.hall, TOPIC, {"retention.ms": "5000"})
        assert house.wings[2].partition(TOPIC).options.retention_ms == 5000

    live(play)


def test_an_audit_begins_when_it_is_switched_on() -> None:
    async def play(house: House) -> None:
        await house.queues.create("q", msgspec.structs.replace(AUDITED, audit="off"))
        await house.send("q", b"a", b"b")
        await house.receive("q", 1)
        assert house.main.hall.topic(TOPIC) is None
        await house.queues.configure("q", AUDITED)
        await house.receive("q", 1)
        assert kinds(house.wings[1]) == ["delivered"]
        assert len(ids(house, 1)) == 1

    live(play)


def test_dead_letters_in_another_group_are_in_the_audit() -> None:
    async def play(house: House) -> None:
        await house.queues.create("dead", QueueSettings())
        letters = DeadLetters(queue="dead", attempts_max=1)
        await house.queues.create("q", msgspec.structs.replace(AUDITED, dead_letters=letters))
        await house.send("q", b"a")
        (one,) = await house.receive("q")
        await house.queues.change_lease("q", [(one.receipt, 0)])
        assert await house.receive("q") == []
        (letter,) = await house.receive("dead", wait_ms=10_000)
        assert letter.body == b"a"
        assert kinds(house.wings[1]).count("died") == 1

    live(play)


def test_the_audit_topic_outlives_its_queue_and_the_next_queue_goes_to_its_group() -> None:
    async def play(house: House) -> None:
        hall = house.main.hall
        await house.queues.create("q", AUDITED)
        await house.send("q", b"a")
        await house.drain("q")
        assert await refused(delete_topic(hall, TOPIC)) is Code.TOPIC_IN_USE
        await house.queues.delete("q")
        house.reach.share = 3
        await house.queues.create("q", AUDITED)
        assert settings_of(house, "q").wings == (1,)
        await house.send("q", b"b")
        await house.drain("q")
        assert kinds(house.wings[1]) == ["delivered", "settled"] * 2

        await house.queues.delete("q")
        await delete_topic(hall, TOPIC)
        assert house.wings[1].hall.topic(TOPIC) is None
        await house.queues.create("q", AUDITED)
        assert settings_of(house, "q").wings == (3,)
        await house.queues.configure("q", msgspec.structs.replace(AUDITED, audit="off"))
        await delete_topic(hall, TOPIC)

    live(play)


def test_an_audit_topic_in_another_place_is_not_used() -> None:
    async def play(house: House) -> None:
        await create_topic(house.main.hall, TOPIC, 1, {"retention.ms": "5000"})
        named = msgspec.structs.replace(AUDITED, placement="wing:one")
        assert await refused(house.queues.create("q", named)) is Code.INVALID_CONFIGURATION
        assert house.queues.view("q") is None
        house.reach.spreads = True
        await house.queues.create("q", QueueSettings(audit="deliveries"))
        assert settings_of(house, "q").placement == "hall"
        await create_topic(house.main.hall, "w.deliveries", 1, {"longhall.placement": "share"})
        assert (
            await refused(house.queues.create("w", QueueSettings(placement="hall", audit="deliveries")))
            is Code.INVALID_CONFIGURATION
        )
        house.reach.share = 2
        await house.queues.create("w", QueueSettings(audit="deliveries"))
        assert settings_of(house, "w").wings == (1,), "with its topic"
        await house.send("w", b"a")
        await house.drain("w")
        assert kinds(house.wings[1], "w") == ["delivered", "settled"]

    live(play)


def test_a_group_that_was_away_gets_the_topic_before_the_queue() -> None:
    async def play(house: House) -> None:
        house.reach.away = {1}
        assert await refused(house.queues.create("q", AUDITED)) is Code.NOT_READY
        house.reach.away = set()
        await house.send("q", b"a")
        await house.drain("q")
        assert len(ids(house, 1)) == 1
        assert kinds(house.wings[1]) == ["delivered", "settled"]

    live(play)


def test_a_group_that_lost_its_audit_topic_makes_none_of_its_own() -> None:
    """A topic with another id would be in the way of the catalogue's."""

    async def play(house: House) -> None:
        await house.queues.create("q", AUDITED)
        await delete_topic(house.wings[1].hall, TOPIC)
        await house.send("q", b"a")
        assert len(await house.receive("q")) == 1
        assert house.wings[1].hall.topic(TOPIC) is None
        await house.reach.furnish("q")
        assert len(ids(house, 1)) == 1
        assert [name for name, _, _ in await house.reach.call(1, ListTopics())] == ["q", TOPIC]

    live(play)


def test_audits_without_a_placement_are_spread_at_their_level(monkeypatch: pytest.MonkeyPatch) -> None:
    async def play(house: House) -> None:
        hall = house.main.hall
        house.reach.spreads = True
        await house.queues.create("before", QueueSettings(audit="deliveries"))
        assert settings_of(house, "before").placement == "hall"
        hall.feature_level = feature_gates.GROUP_AUDITS_LEVEL
        await house.queues.create("after", QueueSettings(audit="deliveries", partitions=3))
        assert settings_of(house, "after").wings == (1,)

        hall.feature_level = 6
        monkeypatch.setattr(hall, "replica", Replica(1))
        with pytest.raises(LonghallError, match="feature level 7"):
            feature_gates.check_group_audits(hall)
        monkeypatch.undo()

    live(play)

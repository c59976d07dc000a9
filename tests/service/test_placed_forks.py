"""Forks and queues over topics, where the topic is in replication groups: each group has the queues of its lanes."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from longhall.broker import feature_gates
from longhall.broker.catalogue import Catalogue
from longhall.broker.topic_administration import add_partitions, create_topic, delete_topic
from longhall.cluster.placement.topic_operations import (
    ListPlacedQueues,
    ListTopics,
    TopicSpec,
    fingerprint,
)
from longhall.cluster.placement.topic_specs import spec_of
from longhall.errors import Code, LonghallError
from longhall.queues.messages import Outgoing
from longhall.queues.settings import DeadLetters, QueueSettings
from longhall.service import queue_operations as ops
from longhall.shards.replica import Replica
from tests.broker.queues.letterbox import audit
from tests.service.house import House, live

KEPT = QueueSettings(placement="parts", settled="keep")
ONE = QueueSettings(placement="share", settled="keep")


async def refused(work: Any) -> Code:
    with pytest.raises(LonghallError) as caught:
        await work
    return caught.value.code


async def over(house: House, name: str, topic: str, settings: QueueSettings | None = None) -> Any:
    return await house.service.dispatch(ops.CreateQueue(name, settings or QueueSettings(), topic=topic))


async def agrees(house: House, topic: str) -> bool:
    """True if every group of the topic stores what the catalogue says."""
    found = house.main.hall.topic(topic)
    assert found is not None
    wanted = (topic, found.topic_id, fingerprint(spec_of(house.main.hall, found)))
    return all([wanted in await house.reach.call(number, ListTopics()) for number in found.options.wings])


def test_a_fork_delivers_again_what_its_queue_has_settled_in_every_group() -> None:
    async def play(house: House) -> None:
        await house.queues.create("q", KEPT)
        await house.send("q", *(b"%d" % number for number in range(30)))
        assert len(await house.drain("q")) == 30
        view = await house.queues.fork("q", "again")
        assert view.settings.wings == (1, 2, 3)
        assert await agrees(house, "q")
        await house.send("q", b"new")
        assert sorted(await house.drain("again")) == sorted([*(b"%d" % number for number in range(30)), b"new"])
        assert await house.drain("q") == [b"new"], "each queue has a cursor of its own"
        await house.send("again", b"more")  # The log is one.
        assert await house.drain("q") == [b"more"]
        assert await house.drain("again") == [b"more"]
        assert house.desk.depth("again").available == 0, "the hall stores nothing of it"

    live(play)


def test_a_fork_begins_where_it_was_told() -> None:
    async def play(house: House) -> None:
        await house.queues.create("q", msgspec.structs.replace(KEPT, partitions=3))
        await house.send("q", *(b"%d" % number for number in range(30)))
        await house.queues.fork("q", "from-offsets", {0: 8, 1: 9})
        assert len(await house.drain("from-offsets")) == 2 + 1 + 10, "lanes that are not named begin at the cursor"
        now_ms = house.main.hall.time.now_ms()
        await house.queues.fork("q", "later", now_ms + 1000)
        await house.send("q", b"new")
        assert await house.drain("later") == [b"new"]
        assert await refused(house.queues.fork("q", "beyond", {0: 1000})) is Code.OFFSET_OUT_OF_RANGE
        assert await refused(house.queues.fork("q", "nowhere", {7: 0})) is Code.INVALID_REQUEST
        assert await refused(house.queues.fork("q", "later")) is Code.QUEUE_EXISTS
        assert house.queues.view("beyond") is None
        assert house.queues.view("nowhere") is None, "a refused fork leaves nothing behind"

    live(play)


def test_a_group_that_was_away_gets_the_fork_where_it_was_to_begin() -> None:
    async def play(house: House) -> None:
        await house.queues.create("q", ONE)
        await house.send("q", b"a", b"b", b"c")
        asked = ops.ForkQueue("q", "x", {0: 1})
        placed = house.service._placed
        assert placed is not None
        starts = placed.fork_starts

        async def then_away(*arguments: Any) -> dict[int, int]:
            found = await starts(*arguments)
            house.reach.away = {1}
            return found

        placed.fork_starts = then_away  # type: ignore[method-assign, assignment]
        assert await refused(house.service.dispatch(asked)) is Code.NOT_READY
        house.reach.away = set()
        assert house.queues.view("x") is not None, "it is committed, and the group gets it later"
        assert await house.drain("q") == [b"a", b"b", b"c"]
        assert await house.drain("x") == [b"b", b"c"], "the first call that misses it there brings it"

    live(play)


def test_the_catalogue_keeps_where_a_fork_begins() -> None:
    async def play(house: House) -> None:
        await house.queues.create("q", ONE)
        await house.send("q", b"a", b"b", b"c")
        await house.queues.fork("q", "x", {0: 2})
        again = Catalogue(house.main.hall.options)
        again.restore(house.main.hall.catalogue.snapshot())
        entry = again.queues.by_name["x"]
        assert entry.starts == {0: 2}
        assert [one.name for one in again.queues.over_topic(entry.topic_id)] == ["x"]

    live(play)


def test_a_queue_over_a_topic_in_groups() -> None:
    async def play(house: House) -> None:
        await create_topic(house.main.hall, "t", 3, {"longhall.placement": "parts"})
        view = await over(house, "q", "t", QueueSettings(dead_letters=DeadLetters(queue="dead", attempts_max=1)))
        assert view.settings.wings == (1, 2, 3)
        assert view.settings.placement == "parts"
        assert view.settings.partitions == 3
        await house.queues.create("dead", QueueSettings(placement="hall"))
        await house.send("q", *(b"%d" % number for number in range(12)))
        assert (await house.queues.weigh("q")).available == 12
        await over(house, "second", "t")
        assert len(await house.drain("second")) == 12, "from the beginning of the topic on"
        await house.queues.configure("second", QueueSettings(lease_ms=7000))
        assert {desk.view("second").settings.lease_ms for desk in house.desks.values()} == {7000}  # type: ignore[union-attr]
        assert await refused(over(house, "q", "t")) is Code.QUEUE_EXISTS
        assert await refused(over(house, "x", "t", ONE)) is Code.INVALID_CONFIGURATION, "it is where the topic is"
        await house.queues.purge("q")
        assert await house.drain("q") == []
        await add_partitions(house.main.hall, "t", 6)
        await house.send("q", b"after")
        assert await house.drain("q") == [b"after"]
        assert await agrees(house, "t")

    live(play)


def test_groups_of_messages_keep_their_order_in_a_fifo_queue_over_a_topic() -> None:
    async def play(house: House) -> None:
        await create_topic(house.main.hall, "t", 6, {"longhall.placement": "parts"})
        fifo = QueueSettings(fifo=True, deduplication="id", deduplication_scope="group")
        await over(house, "q", "t", fifo)
        sent: dict[str, list[bytes]] = {}
        for number in range(40):
            group, body = f"g{number % 5}", b"%d" % number
            await house.queues.send("q", [Outgoing(body=body, group=group, deduplication_id=str(number))])
            sent.setdefault(group, []).append(body)
        assert sum(desk.depth("q").available > 0 for desk in house.desks.values()) > 1, "they are spread"
        found: dict[str, list[bytes]] = {}
        while deliveries := await house.receive("q"):
            for one in deliveries:
                found.setdefault(one.group, []).append(one.body)
            assert await house.queues.settle("q", [one.receipt for one in deliveries]) == [None] * len(deliveries)
        assert found == sent

    live(play)


def test_a_deleted_fork_is_gone_everywhere_and_its_name_is_free() -> None:
    async def play(house: House) -> None:
        await house.queues.create("q", KEPT)
        await house.send("q", *(b"%d" % number for number in range(9)))
        await house.queues.fork("q", "x")
        held = await house.receive("x")
        assert await refused(house.queues.delete("q")) is Code.TOPIC_IN_USE
        await house.queues.delete("x")
        assert [desk.view("x") for desk in house.desks.values()] == [None] * 3
        assert len(await house.drain("q")) == 9, "the log stays"
        await house.queues.fork("q", "x")
        codes = await house.queues.settle("x", [one.receipt for one in held])
        assert None not in codes, "receipts of the queue before do not settle messages of this one"
        assert len(await house.drain("x")) == 9
        await house.queues.delete("x")
        await house.queues.delete("q")
        assert [await house.reach.call(number, ListTopics()) for number in (1, 2, 3)] == [[]] * 3

    live(play)


def test_a_fork_that_a_group_still_has_is_not_taken_for_its_successor() -> None:
    async def play(house: House) -> None:
        await house.queues.create("q", ONE)
        await house.send("q", b"a", b"b")
        await house.queues.fork("q", "x")
        left = await house.reach.call(1, ListPlacedQueues())
        house.reach.lost = {1}  # The removal is lost on its way.
        call = house.reach.call
        house.reach.call = lambda number, op, *more, **by: call(9, op, *more, **by)  # type: ignore[method-assign]
        house.reach.away = {9}
        assert await refused(house.queues.delete("x")) is Code.NOT_READY
        house.reach.call, house.reach.lost, house.reach.away = call, set(), set()  # type: ignore[method-assign]
        assert house.queues.view("x") is None
        assert await house.reach.call(1, ListPlacedQueues()) == left
        assert await refused(house.queues.fork("q", "x", {0: 1})) is Code.QUEUE_EXISTS, "until the group is reconciled"
        assert await refused(house.receive("x")) is Code.QUEUE_EXISTS, "nobody gets messages of the queue before"
        (one,) = left
        await house.reach.clear_queue(*one, [1])
        assert await house.drain("x") == [b"b"]

    live(play)


def test_a_deleted_topic_takes_the_queues_over_it_along() -> None:
    async def play(house: House) -> None:
        await create_topic(house.main.hall, "t", 3, {"longhall.placement": "parts"})
        await over(house, "q", "t")
        await house.send("q", b"a")
        await delete_topic(house.main.hall, "t")
        assert house.queues.view("q") is None
        assert [await house.reach.call(number, ListPlacedQueues()) for number in (1, 2, 3)] == [[]] * 3
        await create_topic(house.main.hall, "t", 3, {"longhall.placement": "parts"})
        await over(house, "q", "t")
        assert await house.drain("q") == []

    live(play)


def test_the_audit_of_a_fork_is_in_its_group() -> None:
    async def play(house: House) -> None:
        house.reach.share = 2
        await house.queues.create("q", ONE)
        await house.send("q", b"a")
        await house.queues.fork("q", "x", "start", QueueSettings(settled="keep", audit="deliveries"))
        topic = house.main.hall.topic("x.deliveries")
        assert topic is not None
        assert topic.options.wings == [2]
        assert await house.drain("x") == [b"a"]
        assert [one.kind for one in audit(house.wings[2], "x")] == ["delivered", "settled"]
        assert await refused(delete_topic(house.main.hall, "x.deliveries")) is Code.TOPIC_IN_USE

    live(play)


def test_below_the_feature_level_groups_have_one_queue_a_topic() -> None:
    async def play(house: House) -> None:
        await house.queues.create("q", ONE)
        await create_topic(house.main.hall, "t", 3, {"longhall.placement": "parts"})
        hall = house.main.hall
        hall.replica = Replica(1)  # Only a cluster has a level.
        hall.feature_level = feature_gates.GROUP_QUEUES_LEVEL - 1
        for work in (house.queues.fork("q", "x"), over(house, "x", "t")):
            with pytest.raises(LonghallError, match="feature level 8") as caught:
                await work
            assert caught.value.code is Code.INVALID_CONFIGURATION
        hall.replica = None
        assert house.queues.view("x") is None

    live(play)


def test_a_topic_without_queues_over_it_is_encoded_as_before() -> None:
    before = {"name": "t", "topic_id": b"t" * 16, "partitions": 1, "configuration": {}, "queue": None}
    spec = TopicSpec(name="t", topic_id=b"t" * 16, partitions=1, configuration={})
    assert msgspec.to_builtins(spec, builtin_types=(bytes,)) == before
    assert msgspec.convert(before, TopicSpec).over == []

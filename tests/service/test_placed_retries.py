"""The retry topic of a queue in replication groups: a partition in each of its groups, under the hall's topic id."""

from __future__ import annotations

from typing import Any

import pytest

from longhall.broker.topic_administration import create_topic, delete_topic
from longhall.cluster.placement.topic_operations import ListTopics
from longhall.errors import Code, LonghallError
from longhall.queues.settings import QueueSettings, RetryPolicy
from tests.service.house import House, live

TOPIC = "q.retry"
RETRY = RetryPolicy(first_ms=60_000)


async def refused(work: Any) -> Code:
    with pytest.raises(LonghallError) as caught:
        await work
    return caught.value.code


async def give_back(house: House) -> int:
    """Receive all messages and give them back; how many."""
    count = 0
    while found := await house.receive("q"):
        codes = await house.queues.change_lease("q", [(one.receipt, 0) for one in found])
        assert codes == [None] * len(found)
        count += len(found)
    return count


def copies(house: House, group: int) -> list[int]:
    """By partition, the number of copies that a group stores."""
    return [partition.log.next_offset for partition in house.wings[group].hall.routes[TOPIC]]


@pytest.mark.parametrize(("placement", "groups"), [("share", [2]), ("parts", [1, 2, 3]), ("any-host", [1, 2, 3])])
def test_the_retry_topic_is_where_the_queue_is(placement: str, groups: list[int]) -> None:
    async def play(house: House) -> None:
        house.reach.share = 2
        await house.queues.create("q", QueueSettings(placement=placement, retry=RETRY))
        topic = house.main.hall.topic(TOPIC)
        assert topic is not None
        assert topic.options.wings == groups
        assert len(topic.partitions) == len(groups)
        for near in groups:
            house.reach.near = [near]
            await house.send("q", b"a", b"b", b"c")
        assert await give_back(house) == 3 * len(groups)
        for lane, number in enumerate(groups):
            stored = house.wings[number].hall.topic(TOPIC)
            assert stored is not None
            assert stored.topic_id == topic.topic_id, "Kafka clients find it by this id"
            assert sum(copies(house, number)) == copies(house, number)[lane]
        assert sum(sum(copies(house, number)) for number in groups) == 3 * len(groups)
        assert [one.log.next_offset for one in house.main.hall.routes[TOPIC]] == [0] * len(groups)

    live(play)


def test_retries_begin_when_they_are_switched_on() -> None:
    async def play(house: House) -> None:
        await house.queues.create("q", QueueSettings(placement="share"))
        assert house.main.hall.topic(TOPIC) is None
        await house.queues.configure("q", QueueSettings(retry=RETRY))
        await house.send("q", b"a")
        assert await give_back(house) == 1
        assert copies(house, 1) == [1]
        assert await refused(delete_topic(house.main.hall, TOPIC)) is Code.TOPIC_IN_USE
        await house.queues.configure("q", QueueSettings())
        await delete_topic(house.main.hall, TOPIC)
        assert house.wings[1].hall.topic(TOPIC) is None

    live(play)


def test_a_queue_that_is_created_again_goes_to_its_retry_topic() -> None:
    async def play(house: House) -> None:
        house.reach.spreads, house.reach.share = True, 2
        await house.queues.create("q", QueueSettings(retry=RETRY))
        await house.queues.delete("q")
        house.reach.share = 3
        view = await house.queues.create("q", QueueSettings(retry=RETRY))
        assert view.settings.wings == (2,)
        await house.queues.delete("q")
        parts = QueueSettings(placement="parts", retry=RETRY)
        assert await refused(house.queues.create("q", parts)) is Code.INVALID_CONFIGURATION
        await delete_topic(house.main.hall, TOPIC)
        assert (await house.queues.create("q", parts)).settings.wings == (1, 2, 3)

    live(play)


def test_an_operator_sets_the_retention_beforehand() -> None:
    async def play(house: House) -> None:
        house.reach.spreads = True
        await create_topic(house.main.hall, TOPIC, 1, {"retention.ms": "5000", "longhall.placement": "share"})
        await house.queues.create("q", QueueSettings(retry=RETRY))
        assert house.wings[1].partition(TOPIC).options.retention_ms == 5000
        await create_topic(house.main.hall, "r.retry", 1, {"retention.ms": "5000"})
        view = await house.queues.create("r", QueueSettings(retry=RETRY))
        assert view.settings.wings == (), "a topic in the hall keeps its queue there"

    live(play)


def test_the_own_retry_topic_of_a_group_of_the_version_before_is_replaced() -> None:
    async def play(house: House) -> None:
        with pytest.MonkeyPatch.context() as before:
            before.setattr("longhall.broker.queues.upkeep.side_topics.may_place_retries", lambda hall: False)
            await house.queues.create("q", QueueSettings(placement="share", retry=RETRY))
            await house.send("q", b"a")
            assert await give_back(house) == 1
        assert copies(house, 1) == [1], "the group has a topic of its own"
        assert TOPIC not in [name for name, _, _ in await house.reach.call(1, ListTopics())]
        await house.queues.configure("q", QueueSettings(retry=RetryPolicy(first_ms=1)))
        assert copies(house, 1) == [1], "it stays while the catalogue has the other one"
        await delete_topic(house.main.hall, TOPIC)
        await house.queues.configure("q", QueueSettings(retry=RETRY))
        stored, known = house.wings[1].hall.topic(TOPIC), house.main.hall.topic(TOPIC)
        assert stored is not None
        assert known is not None
        assert stored.topic_id == known.topic_id
        await house.send("q", b"b")
        assert await give_back(house) >= 1
        assert sum(copies(house, 1)) >= 1

    live(play)

"""Groups with server-side assignment on a hall: their topics, their life after a crash, and their feature level."""

from __future__ import annotations

from typing import Any

import pytest

from longhall.broker.checkpoint import checkpoint
from longhall.broker.feature_gates import CONSUMER_GROUPS_LEVEL
from longhall.broker.topic_administration import add_partitions, create_topic, delete_topic
from longhall.errors import Code, LonghallError
from longhall.shards.replica import Replica
from longhall.topics.effects import CommitRequest, ConsumerHeartbeat, ConsumerHeartbeatResult
from longhall.topics.group_configuration import HEARTBEAT_INTERVAL
from tests.broker.desk import Desk, Life, picture


async def join(life: Life, member_id: str, **fields: Any) -> ConsumerHeartbeatResult:
    fields.setdefault("topics", ("t",))
    request = ConsumerHeartbeat(group_id="g", member_id=member_id, rebalance_timeout_ms=9_000, owned=(), **fields)
    return await life.coordinator.consumer_heartbeat(request)


async def beat(life: Life, member_id: str, epoch: int, **fields: Any) -> ConsumerHeartbeatResult:
    return await life.coordinator.consumer_heartbeat(
        ConsumerHeartbeat(group_id="g", member_id=member_id, epoch=epoch, **fields)
    )


def count(result: ConsumerHeartbeatResult) -> int:
    return sum(len(numbers) for _, numbers in result.assigned or ())


@pytest.mark.parametrize("end", ["kill", "cut"])
@pytest.mark.parametrize("checkpointed", [False, True])
def test_a_group_survives_a_crash(end: str, checkpointed: bool) -> None:
    desk = Desk()
    before: list[object] = []

    async def play(life: Life) -> None:
        await create_topic(life.hall, "t", 4, {})
        await life.coordinator.configure_group("g", {HEARTBEAT_INTERVAL: "6000"}, False)
        assert count(await join(life, "one")) == 4
        assert (await join(life, "two", instance_id="static")).epoch == 2
        await life.coordinator.commit_offsets(
            CommitRequest(group_id="g", member_id="one", generation=1, offsets=(("t", 0, 5, -1, ""),))
        )
        assert count(await beat(life, "one", 1)) == 2  # It has to give up two.
        if checkpointed:
            await checkpoint(life.hall)
        before.append(picture(life.hall)["groups"])

    async def look(life: Life) -> None:
        assert picture(life.hall)["groups"] == before[0]
        assert (await beat(life, "two", 2, instance_id="static")).assigned is None
        described = life.coordinator.describe_consumer_group("g")
        assert described is not None
        kept = next(row.member.assigned for row in described.members if row.member.member_id == "one")
        moved = await beat(life, "one", 1, owned=kept)
        assert (moved.epoch, moved.heartbeat_interval_ms) == (2, 6000)
        assert count(await beat(life, "two", 2, instance_id="static")) == 2
        (offset,) = await life.coordinator.fetch_offsets("g", [("t", 0)], False)
        assert offset.offset == 5

    desk.live(play, end=end)
    desk.live(look)


def test_topics_that_are_made_grow_and_are_deleted_reach_the_group() -> None:
    async def play(life: Life) -> None:
        joined = await join(life, "one", topics=(), pattern="t.*")
        assert count(joined) == 0
        await create_topic(life.hall, "t1", 2, {})
        await create_topic(life.hall, "other", 2, {})
        grown = await beat(life, "one", joined.epoch)
        assert count(grown) == 2
        await add_partitions(life.hall, "t1", 3)
        more = await beat(life, "one", grown.epoch)
        assert count(more) == 3
        await delete_topic(life.hall, "t1")
        assert (await beat(life, "one", more.epoch)).assigned == ()

    Desk().live(play)


def test_a_group_needs_its_feature_level_in_a_cluster() -> None:
    async def play(life: Life) -> None:
        life.hall.replica = Replica(1)
        life.hall.feature_level = CONSUMER_GROUPS_LEVEL - 1
        refused = await join(life, "one")
        assert refused.code is Code.UNSUPPORTED_VERSION
        assert "longhall cluster upgrade" in (refused.message or "")
        with pytest.raises(LonghallError, match="feature level"):
            await life.coordinator.configure_group("g", {}, False)
        life.hall.replica = None

    Desk().live(play)

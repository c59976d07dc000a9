"""Operations on topics: what the leader of the hall does for a request, in values that can travel between nodes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from longhall.broker.configuration_changes import ConfigurationAction, ConfigurationChange
from longhall.broker.producer_ids import take_producer_id
from longhall.doors.kafka import topic_operations
from longhall.errors import Code, LonghallError
from tests.doors.two_nodes import FOLLOWER, LEADER, two_nodes


def travel(reply: Any) -> Any:
    """The same after a way between two nodes."""
    return msgspec.msgpack.decode(msgspec.msgpack.encode(reply), type=type(reply))


async def test_replies_travel(tmp_path: Path) -> None:
    async with two_nodes(tmp_path) as two:
        hall = two.leader.hall
        created = await topic_operations.create_topic(hall, LEADER, "orders", {"retention.ms": "5"}, partitions=2)
        assert travel(created) == created
        assert (created.partitions, created.replicas, created.configuration) == (2, 3, {"retention.ms": "5"})
        (described, missing) = topic_operations.describe_topics(hall, LEADER, ["orders", "nothing"])
        assert travel(described) == described
        assert described is not None
        assert (described.topic_id, [row.leader for row in described.partitions]) == (created.topic_id, [LEADER] * 2)
        assert missing is None
        configuration = topic_operations.describe_configuration(hall, "orders")
        assert travel(configuration) == configuration
        change = ConfigurationChange("cleanup.policy", ConfigurationAction.APPEND, "compact")
        assert travel(change) == change
        deleted = await topic_operations.delete_topic(hall, "", created.topic_id)
        assert travel(deleted) == deleted
        assert (deleted.name, deleted.topic_id) == ("orders", created.topic_id)


async def test_changes_of_a_configuration(tmp_path: Path) -> None:
    async with two_nodes(tmp_path) as two:
        hall = two.leader.hall
        await topic_operations.create_topic(hall, LEADER, "orders", {"retention.ms": "5"})

        async def change(*changes: ConfigurationChange) -> dict[str, str]:
            await topic_operations.change_configuration(hall, "orders", changes)
            return topic_operations.describe_configuration(hall, "orders").configuration

        assert await change(ConfigurationChange("retention.ms", ConfigurationAction.DELETE)) == {}
        have = await change(ConfigurationChange("cleanup.policy", ConfigurationAction.APPEND, "compact"))
        assert have == {"cleanup.policy": "delete,compact"}
        assert await change(ConfigurationChange("cleanup.policy", ConfigurationAction.SUBTRACT, "delete")) == {
            "cleanup.policy": "compact"
        }
        for code, wrong in (
            (Code.INVALID_CONFIGURATION, ConfigurationChange("unheard.of", ConfigurationAction.SET, "1")),
            (Code.INVALID_CONFIGURATION, ConfigurationChange("retention.ms", ConfigurationAction.APPEND, "1")),
            (Code.INVALID_REQUEST, ConfigurationChange("retention.ms", ConfigurationAction.SET)),
        ):
            with pytest.raises(LonghallError) as caught:
                await change(wrong)
            assert caught.value.code is code


@pytest.mark.parametrize(
    ("code", "wanted"),
    [
        (Code.INVALID_PARTITION_COUNT, {"partitions": 0}),
        (Code.INVALID_REPLICATION, {"replicas": 4}),
        (Code.INVALID_REPLICATION, {"replicas": 0}),
        (Code.INVALID_REQUEST, {"partitions": 1, "assignments": [(0, [LEADER])]}),
        (Code.INVALID_PARTITION_COUNT, {"assignments": [(0, [LEADER]), (0, [LEADER])]}),
        (Code.INVALID_REPLICA_ASSIGNMENT, {"assignments": [(0, [])]}),
        (Code.INVALID_REPLICA_ASSIGNMENT, {"assignments": [(0, [9])]}),
        (Code.INVALID_REPLICA_ASSIGNMENT, {"assignments": [(0, [LEADER, FOLLOWER])]}),
        (Code.INVALID_REPLICA_ASSIGNMENT, {"assignments": [(0, [FOLLOWER, LEADER, 3])]}),
    ],
)
async def test_counts_and_assignments_are_checked(tmp_path: Path, code: Code, wanted: dict[str, Any]) -> None:
    async with two_nodes(tmp_path) as two:
        with pytest.raises(LonghallError) as caught:
            await topic_operations.create_topic(two.leader.hall, LEADER, "orders", {}, **wanted)
        assert caught.value.code is code
        assert "orders" not in two.leader.hall.routes


async def test_the_replicas_that_the_hall_has_may_be_named(tmp_path: Path) -> None:
    async with two_nodes(tmp_path) as two:
        hall = two.leader.hall
        all_of_them = [LEADER, 3, FOLLOWER]
        created = await topic_operations.create_topic(hall, LEADER, "orders", {}, assignments=[(0, all_of_them)])
        assert (created.partitions, created.replicas) == (1, 3)
        for factor in (1, 3):  # The least number of copies.
            assert (
                await topic_operations.create_topic(hall, LEADER, f"more-{factor}", {}, replicas=factor)
            ).replicas == 3
        for wrong in ([[LEADER]], [all_of_them, all_of_them]):
            with pytest.raises(LonghallError) as caught:
                await topic_operations.add_partitions(hall, LEADER, "orders", 2, wrong)
            assert caught.value.code is Code.INVALID_REPLICA_ASSIGNMENT
        await topic_operations.add_partitions(hall, LEADER, "orders", 2, [all_of_them])
        assert len(hall.routes["orders"]) == 2


async def test_a_follower_changes_nothing(tmp_path: Path) -> None:
    async with two_nodes(tmp_path) as two:
        for attempt in (
            topic_operations.create_topic(two.follower.hall, LEADER, "orders", {}),
            take_producer_id(two.follower.hall),
            topic_operations.add_partitions(two.follower.hall, LEADER, "orders", 2),
        ):
            with pytest.raises(LonghallError) as caught:
                await attempt
            assert caught.value.code is Code.NOT_CONTROLLER

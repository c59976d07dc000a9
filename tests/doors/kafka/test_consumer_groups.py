"""Groups with server-side assignment at the Kafka door: what each version and each error looks like on the wire."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from longhall.broker.topic_administration import create_topic
from longhall.doors.kafka.authorized_operations import NOT_ASKED, OF_GROUP
from longhall.doors.kafka.wire.messages.commits import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestGroupTopic,
)
from longhall.doors.kafka.wire.messages.consumer_groups import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupHeartbeatRequest,
)
from longhall.doors.kafka.wire.messages.group_admin import DescribeGroupsRequest, ListGroupsRequest
from longhall.doors.kafka.wire.messages.group_assignments import HeartbeatTopic
from longhall.node.assembly import Node
from tests.doors.kafka.asking import ask
from tests.doors.two_nodes import two_nodes

NOT_COORDINATOR, UNKNOWN_MEMBER_ID, UNSUPPORTED_VERSION, INVALID_REQUEST, GROUP_ID_NOT_FOUND = 16, 25, 35, 42, 69
FENCED_MEMBER_EPOCH, UNSUPPORTED_ASSIGNOR, STALE_MEMBER_EPOCH, INVALID_REGULAR_EXPRESSION = 110, 112, 113, 128


async def beat(node: Node, version: int = 1, **fields: Any) -> Any:
    fields.setdefault("subscribed_topic_names", None)
    fields.setdefault("topic_partitions", None)
    return await ask(node, ConsumerGroupHeartbeatRequest(group_id="g", **fields), version)


async def join(node: Node, member_id: str, version: int = 1, **fields: Any) -> Any:
    fields = {"subscribed_topic_names": ["t"], "topic_partitions": [], "rebalance_timeout_ms": 9_000, **fields}
    return await beat(node, version, member_id=member_id, **fields)


async def commit(node: Node, epoch: int, version: int, member_id: str = "me", topic_id: bytes = b"") -> int:
    part = OffsetCommitRequestPartition(partition_index=0, committed_offset=7, committed_metadata="")
    topic = OffsetCommitRequestTopic(name="t", topic_id=topic_id or bytes(16), partitions=[part])
    request = OffsetCommitRequest(
        group_id="g", generation_id_or_member_epoch=epoch, member_id=member_id, topics=[topic]
    )
    code: int = (await ask(node, request, version)).topics[0].partitions[0].error_code
    return code


async def fetch(node: Node, epoch: int, member_id: str | None) -> tuple[int, int]:
    topic = OffsetFetchRequestGroupTopic(name="t", partition_indexes=[0])
    group = OffsetFetchRequestGroup(group_id="g", member_id=member_id, member_epoch=epoch, topics=[topic])
    found = (await ask(node, OffsetFetchRequest(groups=[group]), 9)).groups[0]
    return found.error_code, found.topics[0].partitions[0].committed_offset if found.topics else -1


async def test_a_member_joins_commits_is_described_and_leaves(tmp_path: Path) -> None:
    async with two_nodes(tmp_path) as two:
        node = two.leader
        topic = await create_topic(node.hall, "t", 2, {})
        assert topic is not None
        joined = await join(node, "me", rack_id="r1", instance_id="i1", server_assignor="range")
        assert (joined.error_code, joined.member_id, joined.member_epoch) == (0, "me", 1)
        assert joined.heartbeat_interval_ms == 5_000
        assert [(row.topic_id, row.partitions) for row in joined.assignment.topic_partitions] == [
            (topic.topic_id, [0, 1])
        ]
        again = await beat(node, member_id="me", member_epoch=1)
        assert (again.error_code, again.member_epoch, again.assignment) == (0, 1, None)

        assert await commit(node, 1, 9) == 0
        assert await commit(node, 1, 10, topic_id=topic.topic_id) == 0
        assert await commit(node, 2, 9) == STALE_MEMBER_EPOCH
        assert await commit(node, 1, 8) == UNSUPPORTED_VERSION
        assert await commit(node, 1, 9, "other") == UNKNOWN_MEMBER_ID
        assert await fetch(node, 1, "me") == (0, 7)
        assert await fetch(node, -1, None) == (0, 7)
        assert await fetch(node, 9, "me") == (STALE_MEMBER_EPOCH, -1)

        group = (await ask(node, ConsumerGroupDescribeRequest(group_ids=["g", "none"]), 1)).groups[0]
        assert (group.group_state, group.group_epoch, group.assignment_epoch) == ("Stable", 1, 1)
        assert group.assignor_name == "range"
        member = group.members[0]
        assert (member.instance_id, member.rack_id, member.member_epoch, member.member_type) == ("i1", "r1", 1, 1)
        assert (member.client_id, member.subscribed_topic_names) == ("test", ["t"])
        for assignment in (member.assignment, member.target_assignment):
            assert [(row.topic_name, row.partitions) for row in assignment.topic_partitions] == [("t", [0, 1])]
        classic = (await ask(node, DescribeGroupsRequest(groups=["g"]), 6)).groups[0]
        assert (classic.error_code, classic.group_state) == (GROUP_ID_NOT_FOUND, "Dead")
        listed = (await ask(node, ListGroupsRequest(types_filter=["Consumer"]), 5)).groups
        assert [(row.group_id, row.group_type, row.group_state) for row in listed] == [("g", "consumer", "Stable")]

        left = await beat(node, member_id="me", member_epoch=-1, instance_id="i1")
        assert (left.error_code, left.member_epoch) == (0, -1)
        assert (await ask(node, ConsumerGroupDescribeRequest(group_ids=["g"]), 0)).groups[0].group_state == "Empty"


async def test_members_who_ask_are_told_what_they_may_do_with_the_group(tmp_path: Path) -> None:
    async with two_nodes(tmp_path) as two:
        node = two.leader
        await create_topic(node.hall, "t", 1, {})
        await join(node, "me")
        for asked in (False, True):
            request = ConsumerGroupDescribeRequest(group_ids=["g"], include_authorized_operations=asked)
            (group,) = (await ask(node, request, 1)).groups
            assert group.authorized_operations == (OF_GROUP if asked else NOT_ASKED)


async def test_refusals_and_versions(tmp_path: Path) -> None:
    async with two_nodes(tmp_path) as two:
        node = two.leader
        await create_topic(node.hall, "t", 1, {})
        assert (await join(node, "")).error_code == INVALID_REQUEST  # From version 1 on members bring their ids.
        made = await join(node, "", version=0)
        assert made.error_code == 0
        assert made.member_id
        assert (await beat(node, member_id=made.member_id, member_epoch=9)).error_code == FENCED_MEMBER_EPOCH
        assert (await beat(node, member_id="nobody", member_epoch=1)).error_code == UNKNOWN_MEMBER_ID
        wrong = await join(node, "x", subscribed_topic_regex="(a")
        assert wrong.error_code == INVALID_REGULAR_EXPRESSION
        assert "(a" in wrong.error_message
        assert (await join(node, "x", server_assignor="best")).error_code == UNSUPPORTED_ASSIGNOR
        owned = [HeartbeatTopic(topic_id=bytes(16), partitions=[0])]
        assert (await join(node, "x", topic_partitions=owned)).error_code == INVALID_REQUEST
        unknown = (await ask(node, ConsumerGroupDescribeRequest(group_ids=["none"]), 1)).groups[0]
        assert (unknown.error_code, unknown.group_id) == (GROUP_ID_NOT_FOUND, "none")
        assert (await join(two.follower, "x")).error_code == NOT_COORDINATOR

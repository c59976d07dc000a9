"""Share groups through the bytes of the door: sessions, acknowledgements that are refused, bounds, and followers."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from longhall.doors.kafka.group_operations import configure_group
from longhall.doors.kafka.topic_operations import create_topic
from longhall.doors.kafka.wire.messages.configs import DescribeConfigsRequest, DescribeConfigsRequestResource
from longhall.doors.kafka.wire.messages.groups import JoinGroupRequest, JoinGroupRequestProtocol
from longhall.doors.kafka.wire.messages.share_groups import ShareGroupDescribeRequest, ShareGroupHeartbeatRequest
from longhall.doors.kafka.wire.messages.share_offsets import (
    AlterShareGroupOffsetsRequest,
    AlterShareGroupOffsetsRequestPartition,
    AlterShareGroupOffsetsRequestTopic,
    DeleteShareGroupOffsetsRequest,
    DeleteShareGroupOffsetsRequestTopic,
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsRequestGroup,
)
from longhall.doors.kafka.wire.messages.share_records import (
    AcknowledgementBatch,
    ShareFetchRequest,
    ShareFetchRequestPartition,
    ShareFetchRequestTopic,
)
from longhall.node.assembly import Node
from longhall.queues.settings import QueueSettings
from longhall.records.batch import Record, build_batch, parse_header
from tests.doors.kafka.asking import ask, produce
from tests.doors.kafka.share_member import (
    ACCEPT,
    INVALID_RECORD_STATE,
    REJECT,
    RELEASE,
    RENEW,
    Member,
    member_of,
    range_of,
)
from tests.doors.two_nodes import FOLLOWER, LEADER, two_nodes

NOT_LEADER, INVALID_REQUEST, UNKNOWN_TOPIC_ID = 6, 42, 100
NOT_COORDINATOR, INCONSISTENT_GROUP_PROTOCOL, GROUP_ID_NOT_FOUND, FENCED_MEMBER_EPOCH = 16, 23, 69, 110
SESSION_NOT_FOUND, INVALID_SESSION_EPOCH = 122, 123


def _of(first: int, last: int, *types: int) -> AcknowledgementBatch:
    return AcknowledgementBatch(first_offset=first, last_offset=last, acknowledge_types=list(types))


@asynccontextmanager
async def _queue(directory: Path, *batches: int, size: int = 1, **settings: Any) -> AsyncIterator[Node]:
    """A node with a queue `q` that has batches of so many messages."""
    async with two_nodes(directory) as two:
        node = two.leader
        await node.queues.create("q", QueueSettings(**settings))
        for count in batches:
            records = [Record(-1, node.hall.time.now_ms(), None, b"x" * size, ()) for _ in range(count)]
            assert await produce(node, ("q", 0), records=build_batch(records)) == [0]
        yield node


async def test_sessions_have_epochs(tmp_path: Path) -> None:
    async with _queue(tmp_path, 1) as node, member_of(node, "q") as member:
        assert await member.acknowledge(_of(0, 0, ACCEPT)) == INVALID_SESSION_EPOCH
        member.epoch = 5
        assert (await member.fetch()).error_code == SESSION_NOT_FOUND
        member.epoch = 0
        assert (await member.fetch(_of(0, 0, ACCEPT))).error_code == INVALID_REQUEST
        assert await member.acquire() == [(0, 0, 1)]
        assert await member.acknowledge(_of(0, 0, ACCEPT), epoch=7) == INVALID_SESSION_EPOCH
        assert await member.acknowledge(_of(0, 0, ACCEPT)) == 0
        assert await member.acknowledge(_of(0, 0, ACCEPT)) == INVALID_RECORD_STATE


async def test_acknowledgements_that_make_no_sense_change_nothing(tmp_path: Path) -> None:
    async with _queue(tmp_path, 3) as node, member_of(node, "q") as member:
        assert await member.acquire() == [(0, 2, 1)]
        for wrong in ([_of(2, 0, ACCEPT)], [_of(0, 2, ACCEPT, ACCEPT)], [_of(0, 1, 9)], [_of(0, 0)]):
            assert await member.acknowledge(*wrong) == INVALID_REQUEST
        assert await member.acknowledge(_of(1, 1, ACCEPT), _of(0, 0, ACCEPT)) == INVALID_REQUEST
        assert await member.acknowledge(_of(0, 0, RENEW)) == INVALID_REQUEST
        assert await member.acknowledge(_of(0, 1 << 60, ACCEPT)) == INVALID_RECORD_STATE
        assert await member.acknowledge(_of(0, 3, ACCEPT)) == INVALID_RECORD_STATE
        assert await member.acknowledge(_of(0, 2, ACCEPT, RELEASE, RENEW), renew=True) == 0
        assert await member.acquire() == [(1, 1, 2)]
        assert await member.acknowledge(_of(1, 2, ACCEPT)) == 0
        assert node.queues.depth("q").available == 0


async def test_whole_batches_or_the_strict_limit_and_ranges_by_batch_size(tmp_path: Path) -> None:
    async with _queue(tmp_path, 4, 4, 4) as node, member_of(node, "q") as member:
        assert await member.acquire(max_records=2, share_acquire_mode=1) == [(0, 1, 1)]
        assert await member.acquire(max_records=3, batch_size=2) == [(2, 3, 1), (4, 7, 1)]
        assert await member.acknowledge(_of(5, 5, RELEASE)) == 0
        assert await member.acquire() == [(5, 5, 2), (8, 11, 1)]


async def test_the_bytes_of_a_reply_are_bounded_and_what_does_not_fit_was_not_delivered(tmp_path: Path) -> None:
    async with _queue(tmp_path, 1, 1, 1, size=1000) as node, member_of(node, "q") as member:
        answer = await member.fetch(max_bytes=1500)
        (part,) = answer.responses[0].partitions
        assert [range_of(one) for one in part.acquired_records] == [(0, 0, 1)]
        assert parse_header(part.records, 0).size_bytes == len(part.records)
        assert await member.acquire() == [(1, 2, 1)]


async def test_a_fetch_waits_for_bytes_and_wakes_for_returned_messages(tmp_path: Path) -> None:
    async with _queue(tmp_path, 1) as node, member_of(node, "q") as member:
        assert await member.acquire(min_bytes=10_000, max_wait_ms=50) == [(0, 0, 1)]
        async with member_of(node, "q") as other:
            waiting = asyncio.ensure_future(_fetch_as(other, "other"))
            await asyncio.sleep(0.05)
            assert await member.acknowledge(_of(0, 0, RELEASE)) == 0
            answer = await waiting
            assert [range_of(one) for one in answer.responses[0].partitions[0].acquired_records] == [(0, 0, 2)]


async def _fetch_as(member: Member, name: str) -> Any:
    return await member.fetch(member_id=name, max_wait_ms=15_000)


async def test_a_connection_that_closes_returns_what_it_held(tmp_path: Path) -> None:
    async with _queue(tmp_path, 2, lease_ms=60_000) as node:
        async with member_of(node, "q") as member:
            assert await member.acquire() == [(0, 1, 1)]
            assert node.queues.depth("q").available == 0
        async with member_of(node, "q") as again:
            assert await again.acquire(max_wait_ms=15_000) == [(0, 1, 2)]


async def test_a_rejected_message_dies_and_a_group_with_the_name_of_a_queue_uses_it(tmp_path: Path) -> None:
    async with _queue(tmp_path, 2, settled="keep") as node:
        await node.queues.fork("q", "g")
        async with member_of(node, "q") as member:
            assert await member.acquire() == [(0, 1, 1)]
            assert await member.acknowledge(_of(0, 1, REJECT, ACCEPT)) == 0
        assert node.queues.depth("g").available == 0
        assert node.queues.depth("q").available == 2


async def test_unknown_partitions_are_refused_by_themselves(tmp_path: Path) -> None:
    async with _queue(tmp_path, 1) as node, member_of(node, "q") as member:
        member.topic_id = b"0123456789abcdef"
        answer = await member.fetch(max_wait_ms=15_000)
        assert answer.responses[0].partitions[0].error_code == UNKNOWN_TOPIC_ID


async def test_a_follower_names_the_leader(tmp_path: Path) -> None:
    async with two_nodes(tmp_path) as two:
        two.told.leader = FOLLOWER
        await create_topic(two.follower.hall, FOLLOWER, "t", {})
        two.told.leader = LEADER
        topic_id = two.follower.hall.routes["t"][0].topic_id
        parts = [ShareFetchRequestPartition(partition_index=0)]
        request = ShareFetchRequest(group_id="g", member_id="m", max_records=1, max_bytes=1)
        assert (await ask(two.follower, request, 1)).error_code == SESSION_NOT_FOUND
        request.topics = [ShareFetchRequestTopic(topic_id=topic_id, partitions=parts)]
        answer = await ask(two.follower, request, 1)
        (part,) = answer.responses[0].partitions
        assert (part.error_code, part.current_leader.leader_id) == (NOT_LEADER, LEADER)
        assert [broker.port for broker in answer.node_endpoints] == [two.leader.kafka.port]


async def test_members_join_and_are_described_and_other_protocols_are_refused(tmp_path: Path) -> None:
    async with two_nodes(tmp_path) as two:
        node = two.leader
        await create_topic(node.hall, LEADER, "t", {}, partitions=2)
        topic_id = node.hall.routes["t"][0].topic_id
        beat = ShareGroupHeartbeatRequest(group_id="g", member_id="m", subscribed_topic_names=["t", "unknown"])
        joined = await ask(node, beat, 1)
        assert (joined.error_code, joined.member_epoch, joined.heartbeat_interval_ms) == (0, 1, 5000)
        (topic,) = joined.assignment.topic_partitions
        assert (topic.topic_id, topic.partitions) == (topic_id, [0, 1])
        beat = ShareGroupHeartbeatRequest(group_id="g", member_id="m", member_epoch=9)
        assert (await ask(node, beat, 1)).error_code == FENCED_MEMBER_EPOCH
        assert (await ask(two.follower, beat, 1)).error_code == NOT_COORDINATOR
        described = await ask(node, ShareGroupDescribeRequest(group_ids=["g", "h"]), 1)
        known, unknown = described.groups
        assert (known.group_state, known.assignor_name, len(known.members)) == ("Stable", "simple", 1)
        assert known.members[0].client_id == "test"
        assert known.authorized_operations < 0
        assert unknown.error_code == GROUP_ID_NOT_FOUND
        request = ShareGroupDescribeRequest(group_ids=["g"], include_authorized_operations=True)
        assert (await ask(node, request, 1)).groups[0].authorized_operations > 0
        classic = JoinGroupRequest(group_id="g", session_timeout_ms=10_000, protocol_type="consumer")
        classic.protocols = [JoinGroupRequestProtocol(name="range", metadata=b"")]
        assert (await ask(node, classic, 5)).error_code == INCONSISTENT_GROUP_PROTOCOL


async def test_a_group_has_a_bound_of_records_under_way(tmp_path: Path) -> None:
    async with two_nodes(tmp_path) as two:
        node = two.leader
        await create_topic(node.hall, LEADER, "t", {})
        given = {"share.auto.offset.reset": "earliest", "share.partition.max.record.locks": "100"}
        await configure_group(node.kafka_door.coordinator, "g", given)
        for _ in range(3):
            records = build_batch([Record(-1, node.hall.time.now_ms(), None, b"x", ()) for _ in range(60)])
            assert await produce(node, ("t", 0), records=records) == [0]
        async with member_of(node, "t") as member:
            strict = {"max_records": 500, "share_acquire_mode": 1}
            assert sum(last - first + 1 for first, last, _ in await member.acquire(**strict)) == 100
            assert await member.acquire(**strict) == []
            assert await member.acknowledge(_of(7, 8, RELEASE)) == 0
            assert await member.acquire(max_records=500) == [(7, 8, 2)]
            assert await member.acknowledge(_of(0, 9, ACCEPT)) == 0
            assert await member.acquire(**strict) == [(100, 109, 1)]


async def test_the_rest_of_a_batch_is_not_locked_beyond_the_bound(tmp_path: Path) -> None:
    async with two_nodes(tmp_path) as two:
        node = two.leader
        await create_topic(node.hall, LEADER, "t", {})
        given = {"share.auto.offset.reset": "earliest", "share.partition.max.record.locks": "100"}
        await configure_group(node.kafka_door.coordinator, "g", given)
        records = build_batch([Record(-1, node.hall.time.now_ms(), None, b"x", ()) for _ in range(150)])
        assert await produce(node, ("t", 0), records=records) == [0]
        async with member_of(node, "t") as member:
            assert await member.acquire(max_records=500) == [(0, 99, 1)]
            assert await member.acknowledge(_of(0, 99, ACCEPT)) == 0
            assert await member.acquire(max_records=500) == [(100, 149, 1)]


async def test_the_defaults_of_share_groups_are_shown(tmp_path: Path) -> None:
    async with two_nodes(tmp_path) as two:
        wanted = {
            (4, "1", "group.share.delivery.count.limit"): "5",
            (32, "g", "share.isolation.level"): "read_uncommitted",
        }
        for (kind, name, key), value in wanted.items():
            resource = DescribeConfigsRequestResource(resource_type=kind, resource_name=name, configuration_keys=[key])
            answer = await ask(two.leader, DescribeConfigsRequest(resources=[resource]), 4)
            assert [(config.name, config.value) for config in answer.results[0].configs] == [(key, value)]


async def test_altered_offsets_create_the_group(tmp_path: Path) -> None:
    async with two_nodes(tmp_path) as two:
        node = two.leader
        await create_topic(node.hall, LEADER, "t", {})
        records = build_batch([Record(-1, node.hall.time.now_ms(), None, b"x", ()) for _ in range(20)])
        assert await produce(node, ("t", 0), records=records) == [0]
        place = AlterShareGroupOffsetsRequestPartition(partition_index=0, start_offset=8)
        topic = AlterShareGroupOffsetsRequestTopic(topic_name="t", partitions=[place])
        altered = await ask(node, AlterShareGroupOffsetsRequest(group_id="new", topics=[topic]), 0)
        assert (altered.error_code, altered.responses[0].partitions[0].error_code) == (0, 0)
        group = DescribeShareGroupOffsetsRequestGroup(group_id="new", topics=None)
        described = await ask(node, DescribeShareGroupOffsetsRequest(groups=[group]), 0)
        assert described.groups[0].topics[0].partitions[0].start_offset == 8
        gone = DeleteShareGroupOffsetsRequestTopic(topic_name="t")
        deleted = await ask(node, DeleteShareGroupOffsetsRequest(group_id="new", topics=[gone]), 0)
        assert (deleted.error_code, deleted.responses[0].error_code) == (0, 0)
        described = await ask(node, DescribeShareGroupOffsetsRequest(groups=[group]), 0)
        assert (described.groups[0].error_code, described.groups[0].topics) == (0, [])  # The group itself stays.


async def test_offsets_of_another_type_of_group_are_not_altered(tmp_path: Path) -> None:
    async with two_nodes(tmp_path) as two:
        protocol = JoinGroupRequestProtocol(name="range", metadata=b"")
        join = JoinGroupRequest(
            group_id="classic", session_timeout_ms=10_000, protocol_type="consumer", protocols=[protocol]
        )
        await ask(two.leader, join, 2)
        altered = await ask(two.leader, AlterShareGroupOffsetsRequest(group_id="classic", topics=[]), 0)
        assert altered.error_code == GROUP_ID_NOT_FOUND

"""A follower: it sends Kafka clients to the leader, and no message is lost on the way."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaError, Producer
from confluent_kafka.admin import AdminClient, NewTopic

from longhall.doors.kafka.operations import OPERATIONS
from longhall.doors.kafka.wire.apis import API, decode_response, encode_request
from longhall.doors.kafka.wire.messages.cluster import (
    DescribeClusterRequest,
    FindCoordinatorRequest,
    MetadataRequest,
    MetadataRequestTopic,
)
from longhall.doors.kafka.wire.messages.groups import HeartbeatRequest, JoinGroupRequest
from longhall.doors.kafka.wire.messages.offsets import (
    ListOffsetsRequest,
    ListOffsetsRequestPartition,
    ListOffsetsRequestTopic,
)
from longhall.doors.kafka.wire.messages.topics import CreateTopicsRequest, CreateTopicsRequestTopic
from longhall.doors.kafka.wire.schema import Message
from longhall.errors import Code
from longhall.node.assembly import Node
from tests.doors.memory_transport import answer_in_memory
from tests.doors.two_nodes import FOLLOWER, LEADER, two_nodes

NOT_LEADER, COORDINATOR_NOT_AVAILABLE, NOT_COORDINATOR, NOT_CONTROLLER, LEADER_NOT_AVAILABLE = 6, 15, 16, 41, 5


async def ask(node: Node, message: Message, version: int) -> Any:
    """The decoded response of a node's door."""
    api = next(row for row in API.values() if row.request is type(message))
    frame = encode_request(1, "test", version, message)
    answer = await asyncio.wait_for(answer_in_memory(node.doors.kafka.entrance, "127.0.0.1", frame), 20)
    return decode_response(api.key, version, answer[4:])[1]


async def test_where_to_go(tmp_path: Path) -> None:
    async with two_nodes(tmp_path) as two:
        cluster = await ask(two.follower, DescribeClusterRequest(), 0)
        assert cluster.controller_id == LEADER
        ports = {broker.broker_id: broker.port for broker in cluster.brokers}
        assert ports == {LEADER: two.leader.kafka.port, FOLLOWER: two.follower.kafka.port}
        assert {broker.rack for broker in cluster.brokers} == {"rack1", None}
        found = await ask(two.follower, FindCoordinatorRequest(coordinator_keys=["a", "b"]), 4)
        assert [(row.node_id, row.port) for row in found.coordinators] == [(LEADER, two.leader.kafka.port)] * 2
        two.told.leader = 0
        assert (await ask(two.follower, FindCoordinatorRequest(key="a"), 2)).error_code == COORDINATOR_NOT_AVAILABLE
        assert (await ask(two.follower, DescribeClusterRequest(), 0)).controller_id == -1


async def test_a_topic_is_made_by_the_leader_and_known_at_once(tmp_path: Path) -> None:
    async with two_nodes(tmp_path) as two:
        wanted = MetadataRequest(topics=[MetadataRequestTopic(name="new")])
        answer = await ask(two.follower, wanted, 9)
        (topic,) = answer.topics
        assert topic.error_code == 0
        assert [(part.leader_id, part.leader_epoch) for part in topic.partitions] == [(LEADER, 1)]
        assert topic.partitions[0].replica_nodes == [1, 2, 3]
        assert topic.partitions[0].isr_nodes == [1, 2]
        assert topic.partitions[0].offline_replicas == [3]
        assert "new" in two.leader.hall.routes
        assert "new" not in two.follower.hall.routes

        request = CreateTopicsRequest(topics=[CreateTopicsRequestTopic(name="made", num_partitions=2)], timeout_ms=1000)
        request.topics[0].replication_factor = 3
        (row,) = (await ask(two.follower, request, 5)).topics
        assert (row.error_code, row.num_partitions, row.replication_factor) == (0, 2, 3)
        request.topics[0].replication_factor = 4
        assert (await ask(two.follower, request, 5)).topics[0].error_code != 0


async def test_without_a_way_to_the_leader(tmp_path: Path) -> None:
    async with two_nodes(tmp_path) as two:
        two.hand.refusal = Code.NOT_READY
        request = CreateTopicsRequest(topics=[CreateTopicsRequestTopic(name="made", num_partitions=1)], timeout_ms=1000)
        request.topics[0].replication_factor = 3
        assert (await ask(two.follower, request, 5)).topics[0].error_code == NOT_CONTROLLER
        unknown = await ask(two.follower, MetadataRequest(topics=[MetadataRequestTopic(name="made")]), 9)
        assert unknown.topics[0].error_code == NOT_CONTROLLER
        assert (await ask(two.follower, MetadataRequest(topics=None), 9)).topics == []
        assert two.follower.hall.shards[0].sequence == 1  # What a node writes when it starts, and nothing more.


async def test_every_offered_api_is_answered(tmp_path: Path) -> None:
    """An empty request of every API in every version has an answer that can be decoded."""
    async with two_nodes(tmp_path) as two:
        two.hand.refusal = Code.NOT_READY
        before = [shard.sequence for shard in two.follower.hall.shards]
        for key, operation in OPERATIONS.items():
            if operation.handler is None:
                continue
            for version in range(operation.version_min, operation.version_max + 1):
                await ask(two.follower, API[key].request(), version)
        assert [shard.sequence for shard in two.follower.hall.shards] == before


async def test_groups_and_partitions_are_refused_with_errors_that_clients_retry(tmp_path: Path) -> None:
    async with two_nodes(tmp_path) as two:
        for version in (0, 5, 9):
            joined = await ask(two.follower, JoinGroupRequest(group_id="g", member_id="m"), version)
            assert (joined.error_code, joined.member_id) == (NOT_COORDINATOR, "m")
        assert (await ask(two.follower, HeartbeatRequest(group_id="g"), 3)).error_code == NOT_COORDINATOR
        partition = ListOffsetsRequestPartition(partition_index=3, timestamp=-1)
        request = ListOffsetsRequest(topics=[ListOffsetsRequestTopic(name="t", partitions=[partition])])
        (topic,) = (await ask(two.follower, request, 5)).topics
        assert [(row.partition_index, row.error_code) for row in topic.partitions] == [(3, NOT_LEADER)]


@pytest.mark.clients
async def test_a_client_that_knows_the_follower_alone(tmp_path: Path) -> None:
    async with two_nodes(tmp_path) as two:
        await asyncio.to_thread(_produce_and_consume, str(two.follower.kafka))
        assert two.leader.hall.traffic.sends > 0
        assert not any(partition.log.next_offset for partition in two.follower.hall.partitions.values())


def _produce_and_consume(bootstrap: str) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.create_topics([NewTopic("t", num_partitions=2, replication_factor=3)])["t"].result(20)
    failures: list[KafkaError] = []
    producer = Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True})
    for number in range(20):
        producer.produce("t", str(number), on_delivery=lambda error, _: failures.append(error) if error else None)
    assert producer.flush(20) == 0
    assert failures == []
    settings = {"bootstrap.servers": bootstrap, "group.id": "g", "auto.offset.reset": "earliest"}
    consumer = Consumer({**settings, "session.timeout.ms": 6000})
    consumer.subscribe(["t"])
    found: set[str] = set()
    for _ in range(200):
        message = consumer.poll(0.2)
        if message is not None and message.error() is None:
            found.add((message.value() or b"").decode())
        if len(found) == 20:
            break
    consumer.commit(asynchronous=False)
    consumer.close()
    assert len(found) == 20

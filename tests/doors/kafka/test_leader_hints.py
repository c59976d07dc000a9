"""Leader hints: a refused client learns from the refusal itself where to go (KIP-951)."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from confluent_kafka import Producer

from longhall.doors.kafka.topic_operations import create_topic
from longhall.doors.kafka.wire.messages import data
from tests.doors.kafka.asking import ask, batch, produce_request
from tests.doors.two_nodes import FOLLOWER, LEADER, TwoNodes, two_nodes

NOT_LEADER = 6


async def _topic_on_both(two: TwoNodes) -> None:
    """A follower has the topics of its leader; here nothing replicates, so each node makes its own."""
    two.told.leader = FOLLOWER
    await create_topic(two.follower.hall, FOLLOWER, "t", {})
    two.told.leader = LEADER
    await create_topic(two.leader.hall, LEADER, "t", {})


async def test_a_refused_batch_names_the_leader_and_its_address(tmp_path: Path) -> None:
    async with two_nodes(tmp_path) as two:
        await _topic_on_both(two)
        answer = await ask(two.follower, produce_request([("t", 0), ("unknown", 0)], batch()), 12)
        known, unknown = (topic.partition_responses[0] for topic in answer.responses)
        assert (known.error_code, known.current_leader.leader_id) == (NOT_LEADER, LEADER)
        assert known.current_leader.leader_epoch == 1
        assert (unknown.error_code, unknown.current_leader.leader_id) == (NOT_LEADER, -1)
        (broker,) = answer.node_endpoints
        assert (broker.node_id, broker.host, broker.port) == (LEADER, "127.0.0.1", two.leader.kafka.port)
        two.told.leader = 0
        answer = await ask(two.follower, produce_request([("t", 0)], batch()), 12)
        assert answer.responses[0].partition_responses[0].current_leader.leader_id == -1
        assert answer.node_endpoints == []


@pytest.mark.parametrize(("version", "has_hint", "has_address"), [(11, False, False), (17, True, True)])
async def test_a_refused_fetch_names_the_leader(
    tmp_path: Path, version: int, has_hint: bool, has_address: bool
) -> None:
    async with two_nodes(tmp_path) as two:
        await _topic_on_both(two)
        row = data.FetchRequestTopic(topic="t", topic_id=two.follower.hall.routes["t"][0].topic_id)
        row.partitions = [data.FetchRequestPartition(partition=0, fetch_offset=0, partition_max_bytes=1000)]
        answer = await ask(two.follower, data.FetchRequest(topics=[row]), version)
        part = answer.responses[0].partitions[0]
        assert (part.error_code, part.current_leader.leader_id) == (NOT_LEADER, LEADER if has_hint else -1)
        assert [broker.port for broker in answer.node_endpoints] == [two.leader.kafka.port] * has_address


@pytest.mark.clients
async def test_a_client_follows_the_hint(tmp_path: Path) -> None:
    """librdkafka sends to the follower as long as its metadata says so, and then to the leader that it is told."""
    async with two_nodes(tmp_path) as two:
        await _topic_on_both(two)
        two.told.leader = FOLLOWER
        producer = Producer({"bootstrap.servers": str(two.follower.kafka), "topic.metadata.refresh.interval.ms": -1})
        await asyncio.to_thread(_send, producer)
        before = two.leader.hall.traffic.sends
        two.told.leader = LEADER
        await asyncio.to_thread(_send, producer)
        assert two.leader.hall.traffic.sends > before


def _send(producer: Producer) -> None:
    failures: list[object] = []
    producer.produce("t", b"x", on_delivery=lambda error, _: failures.append(error) if error else None)
    assert producer.flush(20) == 0
    assert failures == []

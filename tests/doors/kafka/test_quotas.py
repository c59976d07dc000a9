"""Quotas at the Kafka door: batches are accepted, and a client over its quota gets a throttle time."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import cast

from longhall.broker.topic_administration import create_topic
from longhall.broker.waiting import committed
from longhall.doors.kafka.throttle import THROTTLE_MS_MAX
from longhall.doors.kafka.wire.apis import decode_response, encode_request
from longhall.doors.kafka.wire.messages.data import (
    ProduceRequest,
    ProduceRequestPartition,
    ProduceRequestTopic,
    ProduceResponse,
)
from longhall.node.assembly import Node
from longhall.records.batch import Record, build_batch
from tests.doors.memory_transport import Memory, answer_in_memory
from tests.doors.two_nodes import two_nodes

PRODUCE = 0


def request(topic: str, size_bytes: int, version: int = 9, acks: int = -1, producer_id: int = -1) -> bytes:
    epoch = sequence = -1 if producer_id < 0 else 0
    records = [Record(-1, 1_700_000_000_000, None, bytes(size_bytes), ())]
    batch = build_batch(records, producer_id=producer_id, producer_epoch=epoch, base_sequence=sequence)
    part = ProduceRequestTopic(name=topic, partition_data=[ProduceRequestPartition(index=0, records=batch)])
    return encode_request(1, "test", version, ProduceRequest(acks=acks, timeout_ms=1000, topic_data=[part]))


async def produce(node: Node, topic: str, size_bytes: int, version: int = 9, producer_id: int = -1) -> ProduceResponse:
    frame = request(topic, size_bytes, version, producer_id=producer_id)
    answer = await asyncio.wait_for(answer_in_memory(node.doors.kafka.entrance, "127.0.0.1", frame), 20)
    response = decode_response(PRODUCE, version, answer[4:])[1]
    assert isinstance(response, ProduceResponse)
    return response


async def test_a_producer_is_told_to_wait_and_its_messages_are_taken(tmp_path: Path) -> None:
    async with two_nodes(tmp_path) as two:
        hall = two.leader.hall
        await create_topic(hall, "slow", 1, {"longhall.quota.bytes.per.second": "1000"})
        await create_topic(hall, "free", 1, {})
        first = await produce(two.leader, "slow", 150_000)
        again = await produce(two.leader, "slow", 900_000, version=3)
        assert first.throttle_time_ms == again.throttle_time_ms == THROTTLE_MS_MAX
        assert (await produce(two.leader, "free", 900_000)).throttle_time_ms == 0
        partition = hall.partition("slow", 0)
        assert partition is not None
        assert partition.high_watermark == 2
        for answer in (first, again):
            assert answer.responses[0].partition_responses[0].error_code == 0
        assert hall.traffic.sends_failed == 0
        assert [hall.topic_traffic[name].throttled for name in ("slow", "free")] == [2, 0]


async def test_who_asks_for_no_answer_has_no_more_than_its_share(tmp_path: Path) -> None:
    async with two_nodes(tmp_path) as two:
        hall = two.leader.hall
        await create_topic(hall, "free", 1, {})
        partition = hall.partition("free", 0)
        assert partition is not None
        fairness = two.leader.kafka_door.fairness
        connection = cast(asyncio.Protocol, two.leader.doors.kafka.entrance())
        connection.connection_made(Memory("127.0.0.1"))
        connection.data_received(request("free", 1000, acks=0))
        assert fairness.held_bytes > 1000
        await asyncio.wait_for(committed(hall, partition.shard), 20)
        assert fairness.held_bytes == 0
        connection.connection_lost(None)

"""aiokafka: an asyncio client that speaks the older encodings."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewPartitions, NewTopic, RecordsToDelete
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType
from aiokafka.coordinator.assignors.range import RangePartitionAssignor
from aiokafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor
from aiokafka.coordinator.assignors.sticky.sticky_assignor import StickyPartitionAssignor
from aiokafka.errors import KafkaError, MessageSizeTooLargeError, ProducerFenced
from aiokafka.structs import OffsetAndMetadata

from tests.clients.conftest import COMPRESSIONS, SESSION_MS, WAIT_SECONDS, FreshName, MakeTopic

Start = Callable[..., Any]


@pytest.fixture
async def start(bootstrap: str) -> AsyncIterator[Start]:
    """Makes and starts clients, and stops them after the test."""
    made: list[Any] = []

    async def make(kind: type[Any], *topics: str, **settings: Any) -> Any:
        if kind is AIOKafkaConsumer:
            usual = {
                "auto_offset_reset": "earliest",
                "enable_auto_commit": False,
                "session_timeout_ms": SESSION_MS,
                "heartbeat_interval_ms": 300,
            }
            settings = {**usual, **settings}
        client = kind(*topics, bootstrap_servers=bootstrap, **settings)
        made.append(client)
        await client.start()
        return client

    yield make
    for client in made:
        await (client.close() if isinstance(client, AIOKafkaAdminClient) else client.stop())


async def read(consumer: AIOKafkaConsumer, count: int) -> list[Any]:
    async with asyncio.timeout(WAIT_SECONDS):
        return [await consumer.getone() for _ in range(count)]


async def until(reached: Callable[[], Awaitable[bool]], what: Callable[[], object] = lambda: "") -> None:
    """Ask again and again; the client rebalances in the background, and brokers tell one another soon, not at once."""
    deadline = time.monotonic() + WAIT_SECONDS
    while not await reached():
        assert time.monotonic() < deadline, f"it did not happen: {what()}"
        await asyncio.sleep(0.02)


async def until_owned(members: Sequence[AIOKafkaConsumer], *counts: int) -> None:
    """Wait until the members own so many partitions each, no partition twice."""

    async def reached() -> bool:
        owned = [owned_by(member) for member in members]
        return [len(o) for o in owned] == list(counts) and len(set().union(*owned)) == sum(counts)

    await until(reached, lambda: [owned_by(member) for member in members])


def owned_by(consumer: AIOKafkaConsumer) -> set[int]:
    return {place.partition for place in consumer.assignment()}


async def test_a_record_keeps_all_its_parts(start: Start, topic: str) -> None:
    producer = await start(AIOKafkaProducer)
    headers = [("trace", b"abc"), ("empty", b""), ("trace", b"again")]
    sent = await producer.send_and_wait(topic, b"value", b"key", headers=headers, timestamp_ms=1_700_000_000_123)
    assert sent.offset == 0
    await producer.send_and_wait(topic, None, b"tombstone")
    first, tombstone = await read(await start(AIOKafkaConsumer, topic), 2)
    assert (first.key, first.value, list(first.headers)) == (b"key", b"value", headers)
    assert first.timestamp == 1_700_000_000_123
    assert (tombstone.key, tombstone.value, tombstone.offset) == (b"tombstone", None, 1)


@pytest.mark.parametrize("compression", COMPRESSIONS)
async def test_every_compression(start: Start, topic: str, compression: str) -> None:
    producer = await start(
        AIOKafkaProducer, compression_type=None if compression == "none" else compression, linger_ms=20
    )
    values = [f"{number}:".encode() + b"longhall " * 50 for number in range(200)]
    await asyncio.gather(*[await producer.send(topic, value) for value in values])
    assert [record.value for record in await read(await start(AIOKafkaConsumer, topic), 200)] == values


@pytest.mark.parametrize("acks", [0, 1, "all"])
async def test_every_kind_of_acknowledgement(start: Start, topic: str, acks: int | str) -> None:
    producer = await start(AIOKafkaProducer, acks=acks)
    for value in (b"one", b"two"):
        await producer.send_and_wait(topic, value)
    assert [r.value for r in await read(await start(AIOKafkaConsumer, topic), 2)] == [b"one", b"two"]


async def test_big_records_pass_and_too_big_ones_do_not(start: Start, topic: str) -> None:
    producer = await start(AIOKafkaProducer, max_request_size=8 << 20)
    await producer.send_and_wait(topic, b"x" * (900 << 10))
    with pytest.raises(MessageSizeTooLargeError):
        await producer.send_and_wait(topic, b"x" * (2 << 20))
    await producer.send_and_wait(topic, b"small")
    consumer = await start(AIOKafkaConsumer, topic, max_partition_fetch_bytes=2000)
    assert [len(r.value) for r in await read(consumer, 2)] == [900 << 10, 5]


async def test_offsets_by_place_and_by_time(start: Start, topic: str) -> None:
    producer = await start(AIOKafkaProducer)
    for number in range(10):
        await producer.send_and_wait(topic, str(number).encode(), timestamp_ms=1_700_000_000_000 + number * 1000)
    consumer, here = await start(AIOKafkaConsumer), TopicPartition(topic, 0)
    consumer.assign([here])
    assert await consumer.beginning_offsets([here]) == {here: 0}
    assert await consumer.end_offsets([here]) == {here: 10}
    found = (await consumer.offsets_for_times({here: 1_700_000_003_500}))[here]
    assert (found.offset, found.timestamp) == (4, 1_700_000_004_000)
    assert (await consumer.offsets_for_times({here: 1_700_000_099_000}))[here] is None
    consumer.seek(here, 8)
    assert [r.offset for r in await read(consumer, 2)] == [8, 9]
    await consumer.seek_to_beginning(here)
    assert (await read(consumer, 1))[0].offset == 0
    await consumer.seek_to_end(here)
    assert await consumer.position(here) == 10


async def test_a_waiting_reader_wakes_on_the_first_record(start: Start, topic: str) -> None:
    consumer = await start(AIOKafkaConsumer, topic, fetch_max_wait_ms=50_000, request_timeout_ms=60_000)
    waiting = asyncio.create_task(consumer.getone())
    await asyncio.sleep(0.5)
    assert not waiting.done()
    await (await start(AIOKafkaProducer)).send_and_wait(topic, b"wake")
    assert (await asyncio.wait_for(waiting, WAIT_SECONDS)).value == b"wake"


@pytest.mark.parametrize("assignor", [RangePartitionAssignor, RoundRobinPartitionAssignor, StickyPartitionAssignor])
async def test_members_come_and_leave(
    start: Start, make_topic: MakeTopic, fresh_name: FreshName, assignor: type[Any]
) -> None:
    topic = make_topic(partitions=4)
    settings = {"group_id": fresh_name("group"), "partition_assignment_strategy": (assignor,)}
    first = await start(AIOKafkaConsumer, topic, **settings)
    await until_owned([first], 4)
    second = await start(AIOKafkaConsumer, topic, **settings)
    await until_owned([first, second], 2, 2)
    await second.stop()
    await until_owned([first], 4)


async def test_static_members_keep_their_partitions(start: Start, make_topic: MakeTopic, fresh_name: FreshName) -> None:
    topic, group = make_topic(partitions=2), fresh_name("group")
    one = await start(AIOKafkaConsumer, topic, group_id=group, group_instance_id="one")
    two = await start(AIOKafkaConsumer, topic, group_id=group, group_instance_id="two")
    await until_owned([one, two], 1, 1)
    before = owned_by(two)
    await two.stop()
    again = await start(AIOKafkaConsumer, topic, group_id=group, group_instance_id="two")
    await until_owned([one, again], 1, 1)
    assert owned_by(again) == before


async def test_a_group_continues_at_its_committed_offset(start: Start, topic: str, fresh_name: FreshName) -> None:
    producer, group, here = await start(AIOKafkaProducer), fresh_name("group"), TopicPartition(topic, 0)
    for number in range(6):
        await producer.send_and_wait(topic, str(number).encode())
    first = await start(AIOKafkaConsumer, topic, group_id=group)
    await read(first, 6)
    await first.commit({here: OffsetAndMetadata(4, "my place")})
    assert await first.committed(here) == 4
    await first.stop()
    second = await start(AIOKafkaConsumer, topic, group_id=group)
    assert [int(r.value) for r in await read(second, 2)] == [4, 5]


async def test_idempotence_and_transactions(start: Start, make_topic: MakeTopic, fresh_name: FreshName) -> None:
    topic, name = make_topic(partitions=2), fresh_name("txn")
    producer = await start(AIOKafkaProducer, transactional_id=name)
    async with producer.transaction():
        for partition in range(2):
            await producer.send(topic, b"kept", partition=partition)
    with pytest.raises(ZeroDivisionError):
        async with producer.transaction():
            await producer.send_and_wait(topic, b"dropped", partition=0)
            raise ZeroDivisionError
    zombie = producer
    await zombie.begin_transaction()
    await zombie.send_and_wait(topic, b"zombie", partition=1)
    newer = await start(AIOKafkaProducer, transactional_id=name)
    with pytest.raises((ProducerFenced, KafkaError)):
        await zombie.commit_transaction()
    async with newer.transaction():
        await newer.send(topic, b"newer", partition=0)
    committed = await read(await start(AIOKafkaConsumer, topic, isolation_level="read_committed"), 3)
    assert sorted((r.partition, r.value) for r in committed) == [(0, b"kept"), (0, b"newer"), (1, b"kept")]
    everything = await read(await start(AIOKafkaConsumer, topic), 5)
    assert {r.value for r in everything} == {b"kept", b"dropped", b"zombie", b"newer"}


async def test_offsets_move_with_the_transaction(start: Start, make_topic: MakeTopic, fresh_name: FreshName) -> None:
    source, target, group = make_topic(), make_topic(), fresh_name("group")
    producer = await start(AIOKafkaProducer, transactional_id=fresh_name("txn"))
    consumer = await start(AIOKafkaConsumer, source, group_id=group)
    here = TopicPartition(source, 0)
    async with producer.transaction():
        await producer.send(target, b"out")
        await producer.send_offsets_to_transaction({here: 7}, group)

    async def committed() -> bool:
        return bool(await consumer.committed(here) == 7)

    await until(committed)  # This client does not ask for stable offsets, so it may look too early.
    with pytest.raises(ZeroDivisionError):
        async with producer.transaction():
            await producer.send_offsets_to_transaction({here: 9}, group)
            raise ZeroDivisionError
    assert await consumer.committed(here) == 7


async def test_admin(start: Start, fresh_name: FreshName) -> None:
    manager: AIOKafkaAdminClient = await start(AIOKafkaAdminClient)
    name = fresh_name("topic")
    await manager.create_topics([NewTopic(name, 2, 1, topic_configs={"retention.ms": "60000"})])
    await _partitions(manager, name, 2)
    await manager.create_partitions({name: NewPartitions(3)})
    await _partitions(manager, name, 3)
    await _retention(manager, name, "60000")
    await manager.alter_configs([ConfigResource(ConfigResourceType.TOPIC, name, {"retention.ms": "70000"})])
    await _retention(manager, name, "70000")

    producer = await start(AIOKafkaProducer)
    for _ in range(5):
        await producer.send_and_wait(name, b"x", partition=0)
    here = TopicPartition(name, 0)
    deleted = await manager.delete_records({here: RecordsToDelete(before_offset=2)})
    assert deleted[here] == 2
    assert (await manager.describe_cluster())["cluster_id"]
    await manager.delete_topics([name])
    await _partitions(manager, name, 0)


async def _partitions(manager: AIOKafkaAdminClient, name: str, count: int) -> None:
    """Wait until the topic has so many partitions, or is gone."""

    async def reached() -> bool:
        listed = name in await manager.list_topics()
        return count == (len((await manager.describe_topics([name]))[0]["partitions"]) if listed else 0)

    await until(reached)


async def _retention(manager: AIOKafkaAdminClient, topic: str, expected: str) -> None:
    async def reached() -> bool:
        (answer,) = await manager.describe_configs([ConfigResource(ConfigResourceType.TOPIC, topic)])
        return bool({entry[0]: entry[1] for entry in answer.resources[0][4]}["retention.ms"] == expected)

    await until(reached)


async def test_groups_are_listed_and_described(start: Start, topic: str, fresh_name: FreshName) -> None:
    manager: AIOKafkaAdminClient = await start(AIOKafkaAdminClient)
    group, here = fresh_name("group"), TopicPartition(topic, 0)
    consumer = await start(AIOKafkaConsumer, topic, group_id=group)
    await until_owned([consumer], 1)
    await consumer.commit({here: OffsetAndMetadata(3, "")})
    assert (group, "consumer") in await manager.list_consumer_groups()
    offsets = await manager.list_consumer_group_offsets(group)
    assert {place: found.offset for place, found in offsets.items()} == {here: 3}
    (described,) = await manager.describe_consumer_groups([group])
    assert described.groups[0][2] == "Stable"

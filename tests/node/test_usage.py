"""The usage topic: what is counted for clients of every door, that it is exact, and that clients can only read it."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import boto3
import pika
import pytest
from botocore.config import Config
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from longhall.errors import Code, LonghallError
from longhall.names import USAGE_TOPIC
from longhall.node.assembly import Node
from longhall.node.settings import Settings
from longhall.queues.settings import QueueSettings
from longhall.service.queue_operations import CreateQueue
from longhall.service.usage_operations import AppendUsage
from longhall.world.real.world import real_world
from tests.clients.accounts import PASSWORD, ROOT_PASSWORD, Administrator
from tests.doors.two_nodes import FREE

Sums = Counter[tuple[str, str, str]]  # By door, resource and meter.


@asynccontextmanager
async def running(directory: Path, **settings: object) -> AsyncIterator[Node]:
    world = real_world(str(directory))
    try:
        given = {**FREE, "data": str(directory), "drain_ms": 0, "usage": True, "amqp": "127.0.0.1:0", **settings}
        node = Node(world, Settings(**given))  # type: ignore[arg-type]
        await node.start(lambda error: None)
        yield node
        await node.stop()
    finally:
        world.close()


def read(address: str, login: dict[str, str] | None = None) -> list[dict[str, Any]]:
    """All records of the usage topic, with a Kafka consumer."""
    consumer = Consumer(
        {"bootstrap.servers": address, "group.id": "reader", "enable.auto.commit": False, **(login or {})}
    )
    try:
        part = TopicPartition(USAGE_TOPIC, 0, 0)
        consumer.assign([part])
        _, end = consumer.get_watermark_offsets(part, timeout=10)
        found: list[dict[str, Any]] = []
        while len(found) < end:
            message = consumer.poll(10)
            assert message is not None
            assert message.error() is None
            found.append(json.loads(message.value() or b""))
        return found
    finally:
        consumer.close()


def sums_of(records: list[dict[str, Any]]) -> Sums:
    sums: Sums = Counter()
    for record in records:
        for meter, count in record["usage"].items():
            sums[record.get("door", ""), record.get("resource", ""), meter] += count
    return sums


async def written(node: Node) -> list[dict[str, Any]]:
    """The records of the topic, with all that was counted until now."""
    assert node.writers.usage is not None
    await node.writers.usage.write_all()
    return await asyncio.to_thread(read, str(node.kafka))


def use_sqs(address: str, counted: Sums) -> None:
    sqs = boto3.client(
        "sqs",
        endpoint_url=f"http://{address}",
        region_name="us-east-1",
        aws_access_key_id="x",
        aws_secret_access_key="x",
        config=Config(retries={"max_attempts": 1}),
    )
    url = sqs.create_queue(QueueName="orders")["QueueUrl"]
    for at in range(7):
        body = "x" * (10 + at)
        sqs.send_message(QueueUrl=url, MessageBody=body)
        counted["sqs", "orders", "messages_sent"] += 1
        counted["sqs", "orders", "bytes_sent"] += len(body)
    entries = [{"Id": str(at), "MessageBody": "ü" * 100} for at in range(10)]
    sqs.send_message_batch(QueueUrl=url, Entries=entries)
    counted["sqs", "orders", "messages_sent"] += 10
    counted["sqs", "orders", "bytes_sent"] += 10 * 200
    while found := sqs.receive_message(QueueUrl=url, MaxNumberOfMessages=4).get("Messages"):
        for message in found:
            counted["sqs", "orders", "messages_delivered"] += 1
            counted["sqs", "orders", "bytes_delivered"] += len(message["Body"].encode())
            sqs.delete_message(QueueUrl=url, ReceiptHandle=message["ReceiptHandle"])
            sqs.delete_message(QueueUrl=url, ReceiptHandle=message["ReceiptHandle"])  # Settled already.
            counted["sqs", "orders", "messages_settled"] += 1
            counted["sqs", "orders", "requests.SettleMessages"] += 2


def use_kafka(address: str, counted: Sums) -> None:
    producer = Producer({"bootstrap.servers": address, "enable.idempotence": True})
    for at in range(500):
        producer.produce("events", b"v" * at, partition=0)
        counted["kafka", "events", "messages_sent"] += 1
    assert producer.flush(10) == 0
    consumer = Consumer({"bootstrap.servers": address, "group.id": "g", "auto.offset.reset": "earliest"})
    consumer.subscribe(["events"])
    got = 0
    while got < 500:
        message = consumer.poll(10)
        assert message is not None
        assert message.error() is None
        got += 1
    consumer.close()
    counted["kafka", "events", "messages_fetched"] += got


def use_amqp(address: str, counted: Sums) -> None:
    host, port = address.split(":")
    with pika.BlockingConnection(pika.ConnectionParameters(host, int(port))) as connection:
        channel = connection.channel()
        channel.queue_declare("work", durable=True)
        channel.confirm_delivery()
        for at in range(20):
            channel.basic_publish("", "work", b"b" * at)
            counted["amqp", "work", "messages_sent"] += 1
            counted["amqp", "work", "bytes_sent"] += at
        _, _, body = channel.basic_get("work")
        counted["amqp", "work", "messages_delivered"] += 1
        counted["amqp", "work", "bytes_delivered"] += len(body)
        channel.basic_ack(1)
        channel.basic_qos(prefetch_count=5)
        for method, _, body in channel.consume("work", inactivity_timeout=2):
            if method is None:
                break
            counted["amqp", "work", "messages_delivered"] += 1
            counted["amqp", "work", "bytes_delivered"] += len(body)
            channel.basic_ack(method.delivery_tag)
        counted["amqp", "work", "messages_settled"] += 20
        channel.cancel()


async def test_sums_are_those_that_clients_of_three_doors_counted_also_after_a_restart(tmp_path: Path) -> None:
    counted: Sums = Counter()
    async with running(tmp_path) as node:
        await asyncio.gather(
            asyncio.to_thread(use_sqs, str(node.sqs), counted),
            asyncio.to_thread(use_kafka, str(node.kafka), counted),
            asyncio.to_thread(use_amqp, str(node.amqp), counted),
        )
        sums = sums_of(await written(node))
        assert {key: sums[key] for key in counted} == dict(counted)
        assert sums["kafka", "events", "bytes_sent"] > 500 * 499 / 2
        assert sums["kafka", "events", "bytes_fetched"] == sums["kafka", "events", "bytes_sent"]
        assert sums["sqs", "orders", "requests.SendMessages"] == 8
        assert sums["kafka", "", "requests.Produce"] >= 1
        await asyncio.to_thread(use_sqs, str(node.sqs), counted)
    async with running(tmp_path) as node:
        records = await written(node)
        sums = sums_of(records)
        assert {key: sums[key] for key in counted if key[0] == "sqs"} == {
            key: count for key, count in counted.items() if key[0] == "sqs"
        }
        assert len({record["id"] for record in records}) == len(records)
        assert {record["tenant"] for record in records} == {"default"}
        assert sums["", "events", "storage_byte_seconds"] > 0


async def test_the_time_of_a_connection_counts_for_the_user_that_has_logged_in(tmp_path: Path) -> None:
    def use(node: Node) -> list[object]:
        """Connect as users of their own tenants, and stay connected."""
        administrator = Administrator(str(node.http))
        for name in ("publisher", "signer"):
            administrator.ask("POST", "tenants", {"name": name})
            administrator.add_user(name, tenant=name)
        key = administrator.ask("POST", "users/signer/access-keys", {})
        host, port = str(node.amqp).split(":")
        login = pika.PlainCredentials("publisher", PASSWORD)
        connection = pika.BlockingConnection(pika.ConnectionParameters(host, int(port), credentials=login))
        sqs = boto3.client(
            "sqs",
            endpoint_url=f"http://{node.sqs}",
            region_name="us-east-1",
            aws_access_key_id=key["access_key"],
            aws_secret_access_key=key["secret"],
        )
        sqs.create_queue(QueueName="orders")
        return [connection, sqs]

    login = {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "PLAIN",
        "sasl.username": "root",
        "sasl.password": ROOT_PASSWORD,
    }
    async with running(tmp_path, http="127.0.0.1:0") as node:
        connected = await asyncio.to_thread(use, node)
        assert node.writers.usage is not None
        found: set[tuple[str, str, str]] = set()
        while not {("publisher", "publisher", "amqp"), ("signer", "signer", "sqs")} <= found:
            await asyncio.sleep(1)  # Whole seconds count.
            await node.writers.usage.write_all()
            records = await asyncio.to_thread(read, str(node.kafka), login)
            found = {
                (record["tenant"], record.get("user", ""), record["door"])
                for record in records
                if "connection_seconds" in record["usage"]
            }
        assert ("default", "", "amqp") not in found
        del connected


async def test_a_report_that_is_repeated_is_in_the_topic_once(tmp_path: Path) -> None:
    record = json.dumps({"id": "p-1-0", "usage": {"requests.X": 1}}).encode()
    async with running(tmp_path) as node:
        for _ in range(2):
            await node.service.dispatch(AppendUsage("p", 1, [record]))
    async with running(tmp_path) as node:
        await node.service.dispatch(AppendUsage("p", 1, [record]))
        await node.service.dispatch(AppendUsage("p", 2, [record.replace(b"p-1", b"p-2")]))
        found = await asyncio.to_thread(read, str(node.kafka))
        assert [one["id"] for one in found if one["id"].startswith("p-")] == ["p-1-0", "p-2-0"]


async def test_clients_can_only_read_the_topic(tmp_path: Path) -> None:
    async with running(tmp_path) as node:
        await node.service.dispatch(AppendUsage("p", 1, [b'{"id":"p-1-0","usage":{}}']))
        producer = Producer({"bootstrap.servers": str(node.kafka)})
        refused: list[int] = []
        producer.produce(
            USAGE_TOPIC, b"x", on_delivery=lambda error, _: refused.append(error.code() if error is not None else 0)
        )
        assert await asyncio.to_thread(producer.flush, 10) == 0
        assert refused == [29]  # TOPIC_AUTHORIZATION_FAILED
        admin = AdminClient({"bootstrap.servers": str(node.kafka)})
        with pytest.raises(KafkaException):
            await asyncio.to_thread(admin.delete_topics([USAGE_TOPIC])[USAGE_TOPIC].result, 10)
        with pytest.raises(LonghallError) as raised:
            await node.service.dispatch(CreateQueue(USAGE_TOPIC, QueueSettings()))
        assert raised.value.code is Code.ACCESS_REFUSED


async def test_a_node_without_the_setting_counts_nothing(tmp_path: Path) -> None:
    async with running(tmp_path, usage=False) as node:
        await asyncio.to_thread(use_sqs, str(node.sqs), Counter())
        assert node.writers.usage is None
        assert USAGE_TOPIC not in node.hall.routes

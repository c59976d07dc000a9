"""One message in by AMQP, out by Kafka and SQS, and the other way round, with its properties."""

from __future__ import annotations

import boto3
import pika
import pytest
from confluent_kafka import Consumer, Producer
from pika.adapters.blocking_connection import BlockingChannel

from soak.node import Node
from tests.clients.conftest import FreshName
from tests.clients.sqs.conftest import CREDENTIALS, REGION
from tests.left_out import leave_out


@pytest.fixture
def node(hall: Node | None) -> Node:
    if hall is None:
        leave_out("other doors: LONGHALL_TEST_AMQP names a server that has none")
    assert hall is not None
    return hall


def test_amqp_to_kafka_and_sqs(node: Node, channel: BlockingChannel, fresh_name: FreshName) -> None:
    name = fresh_name("out")
    channel.queue_declare(name)
    channel.confirm_delivery()
    properties = pika.BasicProperties(content_type="text/plain", headers={"color": "red", "size": 4})
    channel.basic_publish("", name, b"hello", properties)
    consumer = Consumer({"bootstrap.servers": node.bootstrap, "group.id": name, "auto.offset.reset": "earliest"})
    consumer.subscribe([name])
    record = None
    for _ in range(100):
        record = consumer.poll(0.2)
        if record is not None:
            break
    assert record is not None
    assert record.error() is None
    assert record.value() == b"hello"
    headers = dict(record.headers())
    assert (headers["color"], headers["size"], headers["content-type"]) == (b"red", b"4", b"text/plain")
    consumer.close()
    sqs = boto3.client("sqs", endpoint_url=f"http://{node.sqs}", region_name=REGION, **CREDENTIALS)
    url = sqs.get_queue_url(QueueName=name)["QueueUrl"]
    message = sqs.receive_message(QueueUrl=url, MessageAttributeNames=["All"], WaitTimeSeconds=5)["Messages"][0]
    assert message["Body"] == "hello"
    assert message["MessageAttributes"]["size"] == {"StringValue": "4", "DataType": "Number"}
    sqs.delete_message(QueueUrl=url, ReceiptHandle=message["ReceiptHandle"])
    assert channel.basic_get(name)[0] is None


def test_kafka_and_sqs_to_amqp(node: Node, channel: BlockingChannel, fresh_name: FreshName) -> None:
    name = fresh_name("in")
    channel.queue_declare(name)
    producer = Producer({"bootstrap.servers": node.bootstrap})
    producer.produce(name, b"from kafka", key=b"k", headers={"color": b"blue"})
    assert producer.flush(20) == 0
    sqs = boto3.client("sqs", endpoint_url=f"http://{node.sqs}", region_name=REGION, **CREDENTIALS)
    url = sqs.get_queue_url(QueueName=name)["QueueUrl"]
    attributes = {"size": {"DataType": "Number", "StringValue": "7"}}
    sqs.send_message(QueueUrl=url, MessageBody="from sqs", MessageAttributes=attributes)
    found = {}
    for method, properties, body in channel.consume(name, auto_ack=True, inactivity_timeout=10):
        assert method is not None
        assert (method.exchange, method.routing_key) == ("", name)
        found[body] = properties.headers
        if len(found) == 2:
            break
    channel.cancel()
    assert found == {b"from kafka": {"color": "blue"}, b"from sqs": {"size": 7}}

"""Sealed queues and topics with the clients that people use: in by one door, out by another, and ciphertext between."""

from __future__ import annotations

import json
import secrets
import time
import urllib.request
from pathlib import Path
from typing import Any

import pika
import pytest
from confluent_kafka import AcknowledgeType, Consumer, Producer, ShareConsumer
from confluent_kafka.admin import AdminClient, NewTopic

from soak.node import Node
from tests.clients.sealed.conftest import found_in, sqs_at, write_keys


def http(node: Node, method: str, path: str, body: object = None) -> Any:
    data = json.dumps(body).encode() if body is not None else None
    request = urllib.request.Request(
        f"http://{node.http}{path}", data, {"Content-Type": "application/json"}, method=method
    )
    with urllib.request.urlopen(request, timeout=10) as reply:
        return json.loads(reply.read() or b"null")


def produce(node: Node, topic: str, *values: bytes, **options: Any) -> None:
    producer = Producer({"bootstrap.servers": node.bootstrap, "linger.ms": 5, **options})
    failed: list[str] = []

    def reported(error: Any, _: Any) -> None:
        if error is not None:
            failed.append(str(error))

    for value in values:
        producer.produce(topic, value, key=b"key", on_delivery=reported)
    assert producer.flush(20) == 0
    assert not failed


def consume(node: Node, topic: str, count: int) -> list[bytes]:
    consumer = Consumer(
        {"bootstrap.servers": node.bootstrap, "group.id": secrets.token_hex(4), "auto.offset.reset": "earliest"}
    )
    consumer.subscribe([topic])
    values: list[bytes] = []
    try:
        for _ in range(60):
            for message in consumer.consume(100, 1.0):
                assert message.error() is None, message.error()
                values.append(message.value())
            if len(values) >= count:
                break
    finally:
        consumer.close()
    return values


def receive(sqs: Any, url: str, count: int = 1) -> list[str]:
    bodies: list[str] = []
    for _ in range(10):
        for message in sqs.receive_message(QueueUrl=url, MaxNumberOfMessages=10, WaitTimeSeconds=1).get("Messages", []):
            bodies.append(message["Body"])
            sqs.delete_message(QueueUrl=url, ReceiptHandle=message["ReceiptHandle"])
        if len(bodies) >= count:
            break
    return bodies


@pytest.mark.parametrize("attributes", [{"KmsMasterKeyId": "alias/orders"}, {"SqsManagedSseEnabled": "true"}])
def test_an_sqs_queue_is_sealed(sealed_node: Node, sqs: Any, attributes: dict[str, str]) -> None:
    secret = secrets.token_hex(24)
    url = sqs.create_queue(QueueName=f"q-{secrets.token_hex(4)}", Attributes=attributes)["QueueUrl"]
    assert attributes.items() <= sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["All"])["Attributes"].items()
    sqs.send_message(
        QueueUrl=url,
        MessageBody=f"one {secret}",
        MessageAttributes={"a": {"DataType": "String", "StringValue": "readable-" + secret[:8]}},
    )
    sqs.send_message_batch(QueueUrl=url, Entries=[{"Id": str(n), "MessageBody": f"{n} {secret}"} for n in range(3)])
    assert found_in(sealed_node.data, b"readable-" + secret[:8].encode()), "the search looks at the right files"
    assert found_in(sealed_node.data, secret.encode()) == []
    assert sorted(receive(sqs, url, 4)) == sorted([f"one {secret}", *(f"{n} {secret}" for n in range(3))])


def test_a_node_seals_queues_by_default_if_its_owner_says_so(tmp_path: Path) -> None:
    options = ["--keys", str(write_keys(tmp_path)), "--set", "sqs_limits.seals_queues=true"]
    secret = secrets.token_hex(24)
    with Node(tmp_path / "data", options=options) as node:
        sqs = sqs_at(node)
        for attributes, expected in (({}, "true"), ({"SqsManagedSseEnabled": "false"}, "false")):
            url = sqs.create_queue(QueueName=f"default-{expected}", Attributes=attributes)["QueueUrl"]
            names = ["SqsManagedSseEnabled"]
            assert sqs.get_queue_attributes(QueueUrl=url, AttributeNames=names)["Attributes"] == {names[0]: expected}
            sqs.send_message(QueueUrl=url, MessageBody=f"{expected} {secret}")
            assert receive(sqs, url, 1) == [f"{expected} {secret}"]
        assert found_in(node.data, f"true {secret}".encode()) == []
        assert found_in(node.data, f"false {secret}".encode())


@pytest.mark.parametrize("attributes", [{}, {"LonghallPriorities": "2"}])
def test_a_share_consumer_of_a_sealed_queue_gets_clear_text(
    sealed_node: Node, sqs: Any, attributes: dict[str, str]
) -> None:
    secret = secrets.token_hex(24)
    name = f"shared-{secrets.token_hex(4)}"
    url = sqs.create_queue(QueueName=name, Attributes={"KmsMasterKeyId": "alias/orders", **attributes})["QueueUrl"]
    urgent = {"longhall.priority": {"DataType": "Number", "StringValue": "1"}}
    sqs.send_message(QueueUrl=url, MessageBody=f"one {secret}")
    sqs.send_message(QueueUrl=url, MessageBody=f"two {secret}", MessageAttributes=urgent)
    values: list[bytes] = []
    settings = {"bootstrap.servers": sealed_node.bootstrap, "group.id": name, "share.acknowledgement.mode": "explicit"}
    with ShareConsumer(settings) as member:
        member.subscribe([name])
        for _ in range(60):
            found = list(member.poll(timeout=0.5))
            for message in found:
                assert message.error() is None
                values.append(message.value())
                member.acknowledge(message, AcknowledgeType.ACCEPT)
            if found:
                assert set(member.commit_sync().values()) <= {None}
            if len(values) >= 2:
                break
    assert sorted(values) == [f"one {secret}".encode(), f"two {secret}".encode()]


def test_through_every_door(sealed_node: Node, sqs: Any) -> None:
    secret = secrets.token_hex(24)
    name = f"doors-{secrets.token_hex(4)}"
    url = sqs.create_queue(QueueName=name, Attributes={"KmsMasterKeyId": "alias/orders"})["QueueUrl"]
    sqs.send_message(QueueUrl=url, MessageBody=f"sqs {secret}")
    produce(sealed_node, name, f"kafka {secret}".encode(), **{"compression.type": "zstd"})
    http(sealed_node, "POST", f"/api/v1/queues/{name}/messages", {"messages": [{"body": f"http {secret}"}]})
    host, port = sealed_node.amqp.split(":")
    with pika.BlockingConnection(pika.ConnectionParameters(host, int(port))) as connection:
        channel = connection.channel()
        channel.confirm_delivery()
        channel.basic_publish("", name, f"amqp {secret}".encode())
        expected = {f"{door} {secret}" for door in ("sqs", "kafka", "http", "amqp")}
        assert {value.decode() for value in consume(sealed_node, name, 4)} == expected
        pushed: list[bytes] = []
        for method, _, body in channel.consume(name, auto_ack=False, inactivity_timeout=10):
            assert method is not None, pushed
            pushed.append(body)
            if len(pushed) == 4:
                break
        channel.cancel()
    assert {body.decode() for body in pushed} == expected
    assert set(receive(sqs, url, 4)) == expected, "what was not acknowledged came back"
    assert found_in(sealed_node.data, secret.encode()) == []


def test_a_topic_is_sealed_batch_by_batch(sealed_node: Node) -> None:
    secret = secrets.token_hex(24)
    name = f"topic-{secrets.token_hex(4)}"
    admin = AdminClient({"bootstrap.servers": sealed_node.bootstrap})
    admin.create_topics([NewTopic(name, 2, config={"longhall.sealed": "alias/orders"})])[name].result(10)
    values = [f"{number} {secret}".encode() for number in range(100)]
    produce(sealed_node, name, *values, **{"enable.idempotence": True})
    produce(sealed_node, name, *values, **{"compression.type": "lz4"})
    assert sorted(consume(sealed_node, name, 200)) == sorted(values * 2)
    assert found_in(sealed_node.data, secret.encode()) == []


def test_an_amqp_queue_is_sealed(sealed_node: Node, sqs: Any) -> None:
    secret = secrets.token_hex(24)
    name = f"amqp-{secrets.token_hex(4)}"
    host, port = sealed_node.amqp.split(":")
    with pika.BlockingConnection(pika.ConnectionParameters(host, int(port))) as connection:
        channel = connection.channel()
        channel.queue_declare(name, durable=True, arguments={"x-longhall-sealed": "alias/orders"})
        assert http(sealed_node, "GET", f"/api/v1/queues/{name}")["settings"]["sealed"] == "alias/orders"
        channel.confirm_delivery()
        channel.exchange_declare("routes", "topic")
        channel.queue_bind(name, "routes", "a.*")
        channel.basic_publish("routes", "a.b", f"routed {secret}".encode())
        channel.basic_publish("", name, f"direct {secret}".encode())
        assert channel.basic_get(name, auto_ack=True)[2] == f"routed {secret}".encode()
        channel.queue_declare("beside", durable=True)
        channel.queue_bind("beside", "routes", "a.*")
        with pytest.raises(pika.exceptions.NackError):
            for _ in range(20):  # A new binding is noticed within a second.
                time.sleep(0.1)
                channel.basic_publish("routes", "a.b", f"for two queues {secret}".encode())
    assert f"direct {secret}" in receive(sqs, f"http://{sealed_node.sqs}/000000000000/{name}", 1)
    assert found_in(sealed_node.data, secret.encode()) == []

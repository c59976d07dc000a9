"""One message in by STOMP, out by AMQP, Kafka and SQS, and the other way round, with its properties."""

from __future__ import annotations

import boto3
import pika
from confluent_kafka import Consumer, Producer

from soak.node import Node
from tests.clients.conftest import FreshName
from tests.clients.sqs.conftest import CREDENTIALS, REGION
from tests.clients.stomp.conftest import Connect

HEADERS = {
    "color": "red",
    "content-type": "text/plain",
    "correlation-id": "c1",
    "amqp-message-id": "m1",
    "type": "greeting",
    "priority": "3",
    "persistent": "true",
    "reply-to": "/queue/answers",
}


def _amqp(node: Node) -> pika.BlockingConnection:
    host, _, port = node.amqp.rpartition(":")
    return pika.BlockingConnection(pika.ConnectionParameters(host, int(port)))


def test_stomp_to_amqp_kafka_and_sqs(node: Node, connect: Connect, fresh_name: FreshName) -> None:
    name = fresh_name("out")
    client = connect()
    client.send(f"/queue/{name}", "hello", **HEADERS)
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
    assert (headers["color"], headers["content-type"], headers["message-id"]) == (b"red", b"text/plain", b"m1")
    consumer.close()
    connection = _amqp(node)
    channel = connection.channel()
    method, properties, body = channel.basic_get(name, auto_ack=True)
    assert method is not None
    assert (method.exchange, method.routing_key, body) == ("", name, b"hello")
    found = (properties.content_type, properties.correlation_id, properties.message_id, properties.type)
    assert found == ("text/plain", "c1", "m1", "greeting")
    assert (properties.priority, properties.delivery_mode, properties.reply_to) == (3, 2, "answers")
    assert properties.headers == {"color": "red"}
    connection.close()
    client.send(f"/queue/{name}", "for SQS", **HEADERS)
    sqs = boto3.client("sqs", endpoint_url=f"http://{node.sqs}", region_name=REGION, **CREDENTIALS)
    url = sqs.get_queue_url(QueueName=name)["QueueUrl"]
    message = sqs.receive_message(QueueUrl=url, MessageAttributeNames=["All"], WaitTimeSeconds=5)["Messages"][0]
    assert message["Body"] == "for SQS"
    assert message["MessageAttributes"]["color"] == {"StringValue": "red", "DataType": "String"}
    assert message["MessageAttributes"]["type"]["StringValue"] == "greeting"
    sqs.delete_message(QueueUrl=url, ReceiptHandle=message["ReceiptHandle"])
    client.subscribe(f"/queue/{name}")
    assert client.has_nothing()


def test_amqp_kafka_and_sqs_to_stomp(node: Node, connect: Connect, fresh_name: FreshName) -> None:
    name = fresh_name("in")
    client = connect()
    client.subscribe(f"/queue/{name}")
    producer = Producer({"bootstrap.servers": node.bootstrap})
    producer.produce(name, b"from kafka", key=b"k", headers={"color": b"blue"})
    assert producer.flush(20) == 0
    sqs = boto3.client("sqs", endpoint_url=f"http://{node.sqs}", region_name=REGION, **CREDENTIALS)
    url = sqs.get_queue_url(QueueName=name)["QueueUrl"]
    attributes = {"size": {"DataType": "Number", "StringValue": "7"}}
    sqs.send_message(QueueUrl=url, MessageBody="from sqs", MessageAttributes=attributes)
    connection = _amqp(node)
    properties = pika.BasicProperties(
        content_type="text/plain",
        headers={"n": 5, "yes": True},
        correlation_id="c1",
        message_id="m1",
        reply_to="answers",
        delivery_mode=2,
        timestamp=1_700_000_000,
    )
    channel = connection.channel()
    channel.confirm_delivery()
    channel.basic_publish("", name, b"from amqp", properties)
    found = {message.body: message.headers for message in (client.take() for _ in range(3))}
    assert found["from kafka"]["color"] == "blue"
    assert found["from sqs"]["size"] == "7"
    assert {headers["destination"] for headers in found.values()} == {f"/queue/{name}"}
    wanted = {
        "content-type": "text/plain",
        "n": "5",
        "yes": "true",
        "correlation-id": "c1",
        "amqp-message-id": "m1",
        "reply-to": "/queue/answers",
        "persistent": "true",
        "timestamp": "1700000000",
    }
    assert {name: found["from amqp"][name] for name in wanted} == wanted
    connection.close()


def test_an_amqp_program_answers_a_stomp_client(node: Node, connect: Connect, fresh_name: FreshName) -> None:
    name = fresh_name("requests")
    client = connect()
    client.send(f"/queue/{name}", "question", reply_to="/temp-queue/t", correlation_id="c1")
    connection = _amqp(node)
    channel = connection.channel()
    method, properties, _ = channel.basic_get(name, auto_ack=True)
    assert method is not None
    answer = pika.BasicProperties(correlation_id=properties.correlation_id)
    channel.basic_publish("", properties.reply_to, b"answer", answer)
    message = client.take()
    assert (message.body, message.headers["correlation-id"]) == ("answer", "c1")
    connection.close()


def test_a_stomp_client_answers_an_amqp_program(node: Node, connect: Connect, fresh_name: FreshName) -> None:
    name = fresh_name("requests")
    client = connect()
    client.subscribe(f"/queue/{name}")
    connection = _amqp(node)
    channel = connection.channel()
    answers: list[bytes] = []

    def answered(channel: object, method: object, properties: object, body: bytes) -> None:
        answers.append(body)

    channel.basic_consume("amq.rabbitmq.reply-to", answered, auto_ack=True)
    channel.basic_publish("", name, b"question", pika.BasicProperties(reply_to="amq.rabbitmq.reply-to"))
    client.send(client.take().headers["reply-to"], "answer")
    connection.process_data_events(time_limit=10)
    assert answers == [b"answer"]
    connection.close()

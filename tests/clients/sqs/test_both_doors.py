"""One hall: what came in through SQS leaves through Kafka, and the other way round, with the same bytes."""

from __future__ import annotations

import time
from typing import Any

from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource

from tests.clients.conftest import WAIT_SECONDS, FreshName
from tests.clients.librdkafka import new_consumer, new_producer, read_all
from tests.clients.librdkafka import send as produce
from tests.clients.sqs.refusals import THROTTLED, refusal
from tests.clients.sqs.words import delete, receive, send


def _name(url: str) -> str:
    return url.rsplit("/", 1)[1]


def test_sent_with_boto3_read_with_confluent_kafka(sqs: Any, queue: str, kafka: str) -> None:
    attributes = {
        "text": {"DataType": "String", "StringValue": "wörd"},
        "number": {"DataType": "Number", "StringValue": "12.5"},
        "bytes": {"DataType": "Binary", "BinaryValue": b"\x00\xff"},
    }
    send(sqs, queue, "first", MessageAttributes=attributes)
    send(sqs, queue, "zweite ✓")
    first, second = read_all(kafka, _name(queue))
    assert (first.value(), second.value()) == (b"first", "zweite ✓".encode())
    headers = dict(first.headers() or [])
    assert {name: headers.get(name) for name in attributes} == {
        "text": "wörd".encode(),
        "number": b"12.5",
        "bytes": b"\x00\xff",
    }
    assert not {"text", "number", "bytes"} & dict(second.headers() or []).keys()


def test_a_kafka_reader_does_not_disturb_the_queue(sqs: Any, queue: str, kafka: str, fresh_name: FreshName) -> None:
    send(sqs, queue, *(str(number) for number in range(5)))
    consumer = new_consumer(kafka, fresh_name("group"))
    consumer.assign([TopicPartition(_name(queue), 0, 0)])
    assert len(consumer.consume(5, 30)) == 5
    consumer.close()
    messages = receive(sqs, queue, 5, MessageSystemAttributeNames=["ApproximateReceiveCount"])
    assert {each["Attributes"]["ApproximateReceiveCount"] for each in messages} == {"1"}
    delete(sqs, queue, messages)


def test_sent_with_confluent_kafka_read_with_boto3(sqs: Any, queue: str, kafka: str) -> None:
    producer = new_producer(kafka)
    headers = [("text", "wörd".encode()), ("bytes", b"\xff\x00")]
    produce(
        producer, _name(queue), ["über Kafka".encode()], headers=headers, timestamp=int(time.time() * 1000) - 60_000
    )
    (message,) = receive(sqs, queue, MessageAttributeNames=["All"], MessageSystemAttributeNames=["All"])
    assert message["Body"] == "über Kafka"
    assert message["MessageAttributes"]["text"] == {"DataType": "String", "StringValue": "wörd"}
    assert message["MessageAttributes"]["bytes"] == {"DataType": "Binary", "BinaryValue": b"\xff\x00"}
    assert message["MessageId"]
    delete(sqs, queue, [message])
    assert "Messages" not in sqs.receive_message(QueueUrl=queue)


def test_a_waiting_receiver_wakes_on_a_produced_record(sqs: Any, queue: str, kafka: str) -> None:
    import threading

    producer = new_producer(kafka)
    timer = threading.Timer(0.5, produce, (producer, _name(queue), [b"wake"]))
    timer.start()
    assert sqs.receive_message(QueueUrl=queue, WaitTimeSeconds=20)["Messages"][0]["Body"] == "wake"
    timer.join()


def test_a_key_is_the_group_of_a_fifo_queue(sqs: Any, fifo: str, kafka: str) -> None:
    produce(new_producer(kafka), _name(fifo), [b"1", b"2"], key=b"group")
    (first,) = receive(sqs, fifo, MessageSystemAttributeNames=["MessageGroupId"], VisibilityTimeout=60)
    assert (first["Body"], first["Attributes"]["MessageGroupId"]) == ("1", "group")
    assert "Messages" not in sqs.receive_message(QueueUrl=fifo)
    delete(sqs, fifo, [first])
    assert receive(sqs, fifo)[0]["Body"] == "2"


def test_a_quota_of_the_topic_applies_to_the_queue(sqs: Any, queue: str, kafka: str) -> None:
    admin = AdminClient({"bootstrap.servers": kafka})

    def allow(bytes_a_second: int) -> None:
        name, operation = "longhall.quota.bytes.per.second", AlterConfigOpType.SET
        entry = ConfigEntry(name, str(bytes_a_second), incremental_operation=operation)
        topic = ConfigResource(ConfigResource.Type.TOPIC, _name(queue), incremental_configs=[entry])
        for future in admin.incremental_alter_configs([topic]).values():
            future.result(WAIT_SECONDS)

    allow(1)
    entries = [{"Id": each, "MessageBody": each * 60} for each in "abc"]  # The first alone takes a minute to pay.
    answer = sqs.send_message_batch(QueueUrl=queue, Entries=entries)
    assert [each["Id"] for each in answer["Successful"]] == ["a"]
    assert [(each["Id"], each["Code"]) for each in answer["Failed"]] == [
        ("b", "RequestThrottled"),
        ("c", "RequestThrottled"),
    ]
    assert refusal(sqs.send_message, QueueUrl=queue, MessageBody="d") == THROTTLED
    allow(-1)
    send(sqs, queue, "e")
    assert sorted(each["Body"] for each in receive(sqs, queue, 2)) == ["a" * 60, "e"]

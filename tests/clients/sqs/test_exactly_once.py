"""Exactly once: repeats are dropped, and a consumer's settles commit together with what it writes back."""

from __future__ import annotations

import json
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest
from botocore.exceptions import ClientError
from confluent_kafka import KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from kafka import KafkaProducer
from kafka import TopicPartition as PythonTopicPartition
from kafka.structs import OffsetAndMetadata

from soak.node import Node
from tests.clients.conftest import FreshName
from tests.clients.librdkafka import new_consumer, new_producer, read_all, send_refused
from tests.clients.librdkafka import send as produce
from tests.clients.sqs.words import bodies, nothing_comes, receive
from tests.left_out import leave_out


@pytest.fixture
def http(hall: Node | None) -> str:
    if hall is None:
        leave_out("the HTTP API: LONGHALL_TEST_SQS names a server that has none")
    return f"http://{hall.http}/api/v1"


def ask(http: str, path: str, body: dict[str, Any]) -> Any:
    request = Request(f"{http}/{path}", json.dumps(body).encode(), {"Content-Type": "application/json"})
    return json.load(urlopen(request, timeout=30))


@pytest.fixture
def work(http: str, sqs: Any, fresh_name: FreshName) -> str:
    """An exactly-once queue with two messages; returns its name."""
    name = fresh_name("work")
    ask(http, "queues", {"name": name, "settings": {"delivery": "exactly-once"}})
    messages = [{"body": body, "deduplication_id": body} for body in ("a", "b")]
    for _ in range(2):  # Sent again, as after a lost reply.
        ask(http, f"queues/{name}/messages", {"messages": messages})
    return name


def url_of(sqs: Any, name: str) -> str:
    return str(sqs.get_queue_url(QueueName=name)["QueueUrl"])


def test_a_sender_must_be_recognisable(http: str, sqs: Any, kafka: str, work: str) -> None:
    with pytest.raises(HTTPError) as refused:
        ask(http, f"queues/{work}/messages", {"messages": [{"body": "x"}]})
    assert refused.value.code == 400
    assert "deduplication id" in json.load(refused.value)["message"]
    with pytest.raises(ClientError, match="deduplication id"):
        sqs.send_message(QueueUrl=url_of(sqs, work), MessageBody="x")
    assert send_refused(new_producer(kafka), work, b"x").code() == KafkaError.INVALID_REQUEST
    produce(new_producer(kafka, enable_idempotence=True), work, [b"c"])
    produce(new_producer(kafka), work, [b"a"], headers=[("longhall.deduplication-id", b"a")])
    assert sorted(bodies(receive(sqs, url_of(sqs, work), 3))) == ["a", "b", "c"]


def test_received_by_sqs_and_settled_with_sends_by_http(
    http: str, sqs: Any, kafka: str, work: str, fresh_name: FreshName
) -> None:
    queue, topic = fresh_name("done"), fresh_name("facts")
    ask(http, "queues", {"name": queue})
    admin = AdminClient({"bootstrap.servers": kafka})
    admin.create_topics([NewTopic(topic, 1)])[topic].result(30)
    receipts = [one["ReceiptHandle"] for one in receive(sqs, url_of(sqs, work), 2)]
    settle = {
        "receipts": receipts,
        "sends": [
            {"queue": queue, "messages": [{"body": "done"}]},
            {"topic": topic, "messages": [{"body": "one", "key": "k"}, {"body": "two"}]},
        ],
    }
    with pytest.raises(HTTPError) as refused:
        ask(
            http,
            f"queues/{work}/settle",
            {**settle, "sends": [*settle["sends"], {"queue": "no", "messages": [{"body": ""}]}]},
        )
    assert refused.value.code == 404
    reply = ask(http, f"queues/{work}/settle", settle)
    assert reply["results"] == [{}, {}]
    assert [len(each["messages"]) for each in reply["sends"]] == [1, 2]
    again = ask(http, f"queues/{work}/settle", settle)  # The reply was lost.
    assert all(one["repeated"] for each in again["sends"] for one in each["messages"])
    assert bodies(receive(sqs, url_of(sqs, queue), 1)) == ["done"]
    assert nothing_comes(sqs, url_of(sqs, queue))
    assert [message.value() for message in read_all(kafka, topic)] == [b"one", b"two"]
    depth = json.load(urlopen(f"{http}/queues/{work}", timeout=30))["depth"]
    assert (depth["available"], depth["in_flight"]) == (0, 0)


@pytest.mark.parametrize("commit", [True, False])
def test_confluent_kafka_settles_in_its_transaction(
    http: str, sqs: Any, kafka: str, work: str, fresh_name: FreshName, commit: bool
) -> None:
    done = fresh_name("done")
    ask(http, "queues", {"name": done})
    messages = receive(sqs, url_of(sqs, work), 2, VisibilityTimeout=2)
    producer = new_producer(kafka, transactional_id=fresh_name("tx"), transaction_timeout_ms=3000)
    producer.init_transactions(30)
    producer.begin_transaction()
    producer.produce(done, b"done")
    group = new_consumer(kafka, f"longhall.settle.{work}").consumer_group_metadata()
    for message in messages:
        settled = TopicPartition(work, 0, 1, metadata=message["ReceiptHandle"])
        producer.send_offsets_to_transaction([settled], group, 30)
    if commit:
        producer.commit_transaction(30)
    else:
        producer.abort_transaction(30)
    depth = json.load(urlopen(f"{http}/queues/{work}", timeout=30))["depth"]
    assert depth["in_flight"] == (0 if commit else 2)
    assert bodies(receive(sqs, url_of(sqs, done), 1) if commit else []) == (["done"] if commit else [])


def test_a_transaction_is_refused_when_a_message_has_another_consumer(
    http: str, sqs: Any, kafka: str, work: str, fresh_name: FreshName
) -> None:
    url = url_of(sqs, work)
    (message,) = receive(sqs, url, 1)
    producer = new_producer(kafka, transactional_id=fresh_name("tx"))
    producer.init_transactions(30)
    producer.begin_transaction()
    group = new_consumer(kafka, f"longhall.settle.{work}").consumer_group_metadata()
    settled = TopicPartition(work, 0, 1, metadata=message["ReceiptHandle"])
    producer.send_offsets_to_transaction([settled], group, 30)
    sqs.change_message_visibility(QueueUrl=url, ReceiptHandle=message["ReceiptHandle"], VisibilityTimeout=0)
    assert len(receive(sqs, url, 2)) == 2
    with pytest.raises(KafkaException) as refused:
        producer.commit_transaction(30)
    assert refused.value.args[0].txn_requires_abort()
    producer.abort_transaction(30)


def test_kafka_python_settles_in_its_transaction(
    http: str, sqs: Any, kafka: str, work: str, fresh_name: FreshName
) -> None:
    receipts = " ".join(one["ReceiptHandle"] for one in receive(sqs, url_of(sqs, work), 2))
    producer = KafkaProducer(bootstrap_servers=kafka, transactional_id=fresh_name("tx"))
    producer.init_transactions()
    producer.begin_transaction()
    offsets = {PythonTopicPartition(work, 0): OffsetAndMetadata(2, receipts, -1)}
    producer.send_offsets_to_transaction(offsets, f"longhall.settle.{work}")
    producer.commit_transaction()
    producer.close()
    depth = json.load(urlopen(f"{http}/queues/{work}", timeout=30))["depth"]
    assert (depth["available"], depth["in_flight"]) == (0, 0)

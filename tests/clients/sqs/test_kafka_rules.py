"""Kafka producers and the rules of a queue: they hold as for every other sender, also inside batches."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable
from typing import Any
from urllib.request import Request, urlopen

import pytest
from confluent_kafka import KafkaError, Producer
from kafka import KafkaProducer
from kafka.errors import MessageSizeTooLargeError, PolicyViolationError

from soak.node import Node
from tests.clients.conftest import FreshName
from tests.clients.librdkafka import new_producer, read_all, send_refused
from tests.clients.librdkafka import send as produce
from tests.clients.sqs.conftest import MakeQueue
from tests.clients.sqs.words import attribute, bodies, delete, nothing_comes, receive
from tests.left_out import leave_out

MakeRuled = Callable[..., str]


def _name(url: str) -> str:
    return url.rsplit("/", 1)[1]


@pytest.fixture
def make_ruled(hall: Node | None, sqs: Any, fresh_name: FreshName) -> MakeRuled:
    """A queue made by the HTTP API, with settings that SQS does not have; returns its SQS address."""

    def make(**settings: Any) -> str:
        if hall is None:
            leave_out("the HTTP API: LONGHALL_TEST_SQS names a server that has none")
        name = fresh_name("ruled")
        body = json.dumps({"name": name, "settings": settings}).encode()
        request = Request(f"http://{hall.http}/api/v1/queues", body, {"Content-Type": "application/json"})
        assert urlopen(request, timeout=30).status == 201
        return str(sqs.get_queue_url(QueueName=name)["QueueUrl"])

    return make


@pytest.fixture(params=["plain", "idempotent and compressed"])
def producer(request: pytest.FixtureRequest, kafka: str) -> Producer:
    settings: dict[str, Any] = {}
    if request.param != "plain":
        settings = {"enable_idempotence": True, "compression_type": "zstd"}
    return new_producer(kafka, linger_ms=20, **settings)


def results(producer: Producer, topic: str, values: list[bytes]) -> list[KafkaError | None]:
    """The result of each value, in the order of the replies."""
    found: list[KafkaError | None] = []
    for value in values:
        producer.produce(topic, value, on_delivery=lambda error, _: found.append(error))
        producer.flush(30)
    return found


def test_no_more_than_the_capacity_is_taken(sqs: Any, make_ruled: MakeRuled, producer: Producer) -> None:
    url = make_ruled(messages_max=10, when_full="refuse")
    errors = results(producer, _name(url), [b"%d" % number for number in range(15)])
    assert errors[:10] == [None] * 10
    assert {error.code() for error in errors[10:] if error is not None} == {KafkaError.POLICY_VIOLATION}
    delete(sqs, url, receive(sqs, url, 10))
    assert results(producer, _name(url), [b"again"]) == [None]


def test_kafka_python_hears_of_a_full_queue(make_ruled: MakeRuled, kafka: str) -> None:
    url = make_ruled(bytes_max=1000, when_full="refuse")
    producer = KafkaProducer(bootstrap_servers=kafka)
    producer.send(_name(url), b"x" * 900).get(30)
    with pytest.raises(PolicyViolationError):
        producer.send(_name(url), b"x" * 200).get(30)
    producer.close()


def test_a_producer_waits_for_room(sqs: Any, make_ruled: MakeRuled, producer: Producer) -> None:
    url = make_ruled(messages_max=3, when_full="wait")
    assert results(producer, _name(url), [b"a", b"b", b"c"]) == [None] * 3

    def consume() -> None:
        time.sleep(1)
        delete(sqs, url, receive(sqs, url, 3))

    consumer = threading.Thread(target=consume)
    consumer.start()
    assert results(producer, _name(url), [b"d", b"e"]) == [None, None]
    consumer.join()
    assert sorted(bodies(receive(sqs, url, 2))) == ["d", "e"]


def test_a_producer_does_not_wait_longer_than_its_timeout(make_ruled: MakeRuled, kafka: str) -> None:
    url = make_ruled(messages_max=1, when_full="wait")
    settings = {"request_timeout_ms": 1000, "message_timeout_ms": 3000}
    producer = new_producer(kafka, **settings)
    produce(producer, _name(url), [b"a"])
    assert send_refused(producer, _name(url), b"b").code() == KafkaError._MSG_TIMED_OUT


def test_the_oldest_make_room(sqs: Any, make_ruled: MakeRuled, producer: Producer) -> None:
    dead = make_ruled()
    letters = {"queue": _name(dead), "attempts_max": 3}
    url = make_ruled(messages_max=2, when_full="dead-letter", dead_letters=letters)
    produce(producer, _name(url), [b"a", b"b"])
    produce(producer, _name(url), [b"c"])
    assert bodies(receive(sqs, url, 2)) == ["b", "c"]
    assert bodies(receive(sqs, dead, 1)) == ["a"]


def test_the_size_limit_holds(sqs: Any, make_queue: MakeQueue, producer: Producer, kafka: str) -> None:
    url = make_queue(MaximumMessageSize=1024)
    produce(producer, _name(url), [b"x" * 1024])
    assert send_refused(producer, _name(url), b"x" * 100_000).code() == KafkaError.MSG_SIZE_TOO_LARGE
    other = KafkaProducer(bootstrap_servers=kafka)
    with pytest.raises(MessageSizeTooLargeError):
        other.send(_name(url), b"x" * 1025).get(30)
    other.close()
    assert len(receive(sqs, url, 1)[0]["Body"]) == 1024
    assert nothing_comes(sqs, url)


def test_the_delay_holds(sqs: Any, make_queue: MakeQueue, producer: Producer, kafka: str) -> None:
    url = make_queue(DelaySeconds=2)
    produce(producer, _name(url), [b"a", b"b", b"c"])
    assert attribute(sqs, url, "ApproximateNumberOfMessagesDelayed") == "3"
    assert attribute(sqs, url, "ApproximateNumberOfMessages") == "0"
    assert not sqs.receive_message(QueueUrl=url).get("Messages")
    assert read_all(kafka, _name(url)) == []  # Nor is it in the topic.
    assert sorted(bodies(receive(sqs, url, 3))) == ["a", "b", "c"]
    assert sorted(message.value() or b"" for message in read_all(kafka, _name(url))) == [b"a", b"b", b"c"]


def test_the_time_to_live_holds(sqs: Any, make_ruled: MakeRuled, producer: Producer) -> None:
    url = make_ruled(time_to_live_ms=1000)
    produce(producer, _name(url), [b"a", b"b"])
    time.sleep(1.5)
    assert nothing_comes(sqs, url)


@pytest.mark.parametrize("by", ["sqs", "http"])
def test_repeats_are_dropped(
    sqs: Any, make_queue: MakeQueue, make_ruled: MakeRuled, producer: Producer, kafka: str, by: str
) -> None:
    if by == "sqs":
        url = make_queue(fifo=True, ContentBasedDeduplication="true")
    else:
        url = make_ruled(deduplication="content")
    (first,) = produce(producer, _name(url), [b"a"], key=b"group")
    (repeat,) = produce(producer, _name(url), [b"a"], key=b"group")
    assert repeat.offset() == first.offset()
    other = KafkaProducer(bootstrap_servers=kafka)
    assert other.send(_name(url), b"a", key=b"group").get(30).offset == first.offset()
    other.close()
    produce(producer, _name(url), [b"b", b"a", b"b"], key=b"group")
    assert attribute(sqs, url, "ApproximateNumberOfMessages") == "2"
    got: list[str] = []
    while len(got) < 2:
        messages = receive(sqs, url, 1)
        got += bodies(messages)
        delete(sqs, url, messages)
    assert got == ["a", "b"]
    assert nothing_comes(sqs, url)


def test_the_rules_hold_for_transactions(sqs: Any, make_ruled: MakeRuled, kafka: str, fresh_name: FreshName) -> None:
    url = make_ruled(messages_max=5, when_full="refuse", deduplication="content", delay_ms=1500)
    producer = new_producer(kafka, transactional_id=fresh_name("tx"))
    producer.init_transactions()
    producer.begin_transaction()
    produce(producer, _name(url), [b"a", b"b", b"a"])
    producer.abort_transaction()
    producer.begin_transaction()
    produce(producer, _name(url), [b"a", b"b", b"a"])
    producer.commit_transaction()
    assert not sqs.receive_message(QueueUrl=url).get("Messages")
    assert sorted(bodies(receive(sqs, url, 2))) == ["a", "b"]
    assert nothing_comes(sqs, url)
    producer.begin_transaction()
    assert send_refused(producer, _name(url), b"x" * 300_000).code() == KafkaError.MSG_SIZE_TOO_LARGE
    producer.abort_transaction()

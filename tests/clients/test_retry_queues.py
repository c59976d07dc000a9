"""Retries of a Kafka consumer group: a failed message goes to a retry queue, comes back later, and is dead at last."""

from __future__ import annotations

import http.client
import json
from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka import Message, Producer

from soak.node import Node
from tests.clients.conftest import FreshName
from tests.clients.librdkafka import new_consumer, new_producer, read_all, send, send_refused
from tests.clients.serving import served

FIRST_MS = 400


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Node]:
    with served(tmp_path_factory.mktemp("retries") / "data") as running:
        yield running


def api(node: Node, method: str, path: str, value: object) -> Any:
    connection = http.client.HTTPConnection(node.http, timeout=30)
    connection.request(method, f"/api/v1/{path}", json.dumps(value), {"Content-Type": "application/json"})
    answer = connection.getresponse()
    said = json.loads(answer.read())
    connection.close()
    assert answer.status in (200, 201), said
    return said


def made(node: Node, name: str, attempts_max: int = 3) -> str:
    """A retry queue for the topic, and a queue for what is dead."""
    api(node, "POST", "queues", {"name": f"{name}-dead"})
    settings = {
        "retry": {"first_ms": FIRST_MS, "factor": 3.0, "sends": True},
        "dead_letters": {"queue": f"{name}-dead", "attempts_max": attempts_max},
    }
    api(node, "POST", "queues", {"name": f"{name}-retry", "settings": settings})
    return f"{name}-retry"


def attempts_of(message: Message) -> int:
    return int(dict(message.headers() or []).get("longhall.attempts", b"0"))


def fail(producer: Producer, queue: str, message: Message) -> None:
    """What a consumer does with a message that it could not process: it sends it on as it is."""
    producer.produce(queue, message.value(), message.key(), headers=message.headers())
    assert producer.flush(30) == 0


def test_a_failed_message_comes_back_later_and_later_and_is_dead_at_last(node: Node, fresh_name: FreshName) -> None:
    topic = fresh_name("orders")
    queue = made(node, topic)
    producer = new_producer(node.bootstrap)
    send(producer, topic, [b"fine", b"poison", b"flaky"], key=b"k", headers=[("trace", b"t")])
    consumer = new_consumer(node.bootstrap, topic)
    consumer.subscribe([topic, queue])
    seen: list[tuple[bytes, int, str, int]] = []
    while len(seen) < 6:
        message = consumer.poll(30)
        assert message is not None, seen
        assert message.error() is None
        assert message.key() == b"k"
        assert dict(message.headers() or [])["trace"] == b"t"
        value, attempts = message.value() or b"", attempts_of(message)
        seen.append((value, attempts, message.topic() or "", message.timestamp()[1]))
        if value == b"poison" or (value == b"flaky" and attempts < 1):
            fail(producer, queue, message)
        consumer.commit(message=message, asynchronous=False)
    consumer.close()
    poison = [one for one in seen if one[0] == b"poison"]
    assert [one[1:3] for one in poison] == [(0, topic), (1, queue), (2, queue)]
    # The time of a message in the retry queue is when it became available.
    assert poison[1][3] - poison[0][3] >= FIRST_MS
    assert poison[2][3] - poison[1][3] >= 3 * FIRST_MS
    assert [one[1] for one in seen if one[0] == b"flaky"] == [0, 1]
    (dead,) = read_all(node.bootstrap, f"{topic}-dead")
    headers = dict(dead.headers() or [])
    assert (dead.value(), dead.key(), headers["trace"]) == (b"poison", b"k", b"t")
    assert headers["longhall.dead-letter-source"] == queue.encode()
    assert (headers["longhall.dead-letter-reason"], headers["longhall.attempts"]) == (b"attempts", b"3")


def test_what_another_door_sends_to_a_retry_queue_waits_too(node: Node, fresh_name: FreshName) -> None:
    queue = made(node, fresh_name("mails"))
    api(node, "POST", f"queues/{queue}/messages", {"messages": [{"body": "failed"}]})
    assert api(node, "GET", f"queues/{queue}/messages?count=1", {})["messages"][0]["state"] == "delayed"
    (one,) = api(node, "POST", f"queues/{queue}/receive", {"wait_ms": 20_000})["messages"]
    assert (one["body"], one["attempts_before"]) == ("failed", 1)


def test_transactions_cannot_send_to_a_retry_queue(node: Node, fresh_name: FreshName) -> None:
    queue = made(node, fresh_name("once"))
    producer = new_producer(node.bootstrap, transactional_id=queue)
    producer.init_transactions(30)
    producer.begin_transaction()
    send_refused(producer, queue, b"x")
    producer.abort_transaction(30)
    assert read_all(node.bootstrap, queue) == []

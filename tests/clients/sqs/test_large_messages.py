"""Messages larger than the limit of their queue, through every door: whole, up to the bound of one reply."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator

import pytest
from confluent_kafka import Consumer

from soak.node import Node
from tests.clients.conftest import FreshName
from tests.clients.librdkafka import read_all
from tests.console.api.asking import Asking
from tests.left_out import leave_out

MIB = 1024 * 1024
RAW = {"Content-Type": "application/octet-stream"}


@pytest.fixture
def ask(hall: Node | None) -> Iterator[Asking]:
    if hall is None:
        leave_out("LONGHALL_TEST_SQS names a server, and only Longhall has these")
    asking = Asking(hall.http)
    yield asking
    asking.close()


@pytest.fixture
def queue(ask: Asking, fresh_name: FreshName) -> str:
    name = fresh_name("large")
    settings = {"message_bytes_max": 4096, "whole_bytes_max": 64 * MIB, "settled": "keep"}
    ask.good("POST", "queues", {"name": name, "settings": settings})
    return name


def sent(ask: Asking, queue: str, body: bytes, query: str = "") -> None:
    status, said = ask.raw("POST", f"queues/{queue}/messages{query}", body, RAW)
    assert status == 200, said


def test_a_kafka_reader_gets_the_whole_message(ask: Asking, queue: str, kafka: str) -> None:
    bodies = [b"small", random.Random(1).randbytes(3 * MIB), random.Random(2).randbytes(5000), b"last"]
    for number, body in enumerate(bodies):
        sent(ask, queue, body, f"?key=k{number}&attribute.number={number}")
    read = read_all(kafka, queue)
    assert [message.value() for message in read] == bodies
    assert [message.key() for message in read] == [b"k0", b"k1", b"k2", b"k3"]
    assert [message.offset() for message in read] == [0, 1, 2, 3]
    assert dict(read[1].headers() or [])["number"] == b"1"
    assert "longhall.whole" not in dict(read[1].headers() or [])
    # The queue delivers the same, and a reader gets it again after it is settled: the queue keeps what is settled.
    received = ask.good("POST", f"queues/{queue}/receive", {"count": 10})["messages"]
    ask.good("POST", f"queues/{queue}/settle", {"receipts": [one["receipt"] for one in received]})
    assert [message.value() for message in read_all(kafka, queue)] == bodies


def test_many_large_messages_come_in_several_replies(ask: Asking, queue: str, kafka: str) -> None:
    bodies = [random.Random(number).randbytes(5 * MIB) for number in range(5)]
    for body in bodies:
        sent(ask, queue, body)
    assert [message.value() for message in read_all(kafka, queue)] == bodies


def test_a_message_above_the_bound_of_a_reply_is_a_note(ask: Asking, queue: str, kafka: str) -> None:
    upload = ask.good("POST", f"queues/{queue}/uploads")["upload_id"]
    for number in range(17):
        path = f"queues/{queue}/uploads/{upload}/parts/{number}"
        assert ask.raw("PUT", path, bytes(MIB), RAW)[0] == 200
    ask.good("POST", f"queues/{queue}/uploads/{upload}", {"parts": 17})
    sent(ask, queue, b"behind it")
    note, behind = read_all(kafka, queue)
    assert json.loads(note.value()) == {"whole_bytes": 17 * MIB, "parts": 17}
    assert dict(note.headers() or [])["longhall.whole-bytes"] == b"%d" % (17 * MIB)
    assert behind.value() == b"behind it"


def test_a_filtered_reader_gets_the_whole_message_too(ask: Asking, queue: str, kafka: str) -> None:
    body = random.Random(3).randbytes(2 * MIB)
    sent(ask, queue, b"other", "?attribute.kind=other")
    sent(ask, queue, body, "?attribute.kind=film")
    reader = Consumer(
        {
            "bootstrap.servers": kafka,
            "group.id": queue,
            "auto.offset.reset": "earliest",
            "client.rack": "longhall.filter=kind = 'film'",
        }
    )
    reader.subscribe([queue])
    try:
        message = None
        for _ in range(30):
            message = reader.poll(1.0)
            if message is not None and message.error() is None:
                break
        assert message is not None
        assert message.value() == body
    finally:
        reader.close()

"""Dead letters through exchanges: their history, their bounds and the cycles that they must not run in."""

from __future__ import annotations

import time
from datetime import datetime
from typing import Any

import pika
import pytest
from pika.adapters.blocking_connection import BlockingChannel
from pika.spec import Basic

from tests.clients.amqp.conftest import Connect
from tests.clients.amqp.test_pika import get, queue
from tests.clients.conftest import FreshName, eventually


def deaths(properties: pika.BasicProperties) -> list[tuple[str, str, int]]:
    assert properties.headers is not None
    return [(one["queue"], one["reason"], one["count"]) for one in properties.headers["x-death"]]


def letters_to(key: str, exchange: str = "") -> dict[str, Any]:
    return {"x-dead-letter-exchange": exchange, "x-dead-letter-routing-key": key}


def count(channel: BlockingChannel, name: str) -> int:
    return int(channel.queue_declare(name, passive=True).method.message_count)


def kept(channel: BlockingChannel, name: str) -> list[bytes]:
    """The messages of a queue, which stay in it."""
    found: list[bytes] = []
    while (received := channel.basic_get(name))[0] is not None:
        found.append(received[2])
        last = received[0].delivery_tag
    if found:
        channel.basic_nack(last, multiple=True, requeue=True)
    return found


def test_the_history_of_a_message_that_dies_several_times(channel: BlockingChannel, fresh_name: FreshName) -> None:
    """Work waits for its retry in a queue whose messages expire back into the first one."""
    work, wait = fresh_name("work"), fresh_name("wait")
    queue(channel, work, arguments=letters_to(wait))
    queue(channel, wait, arguments={**letters_to(work), "x-message-ttl": 50})
    channel.basic_publish("", work, b"x", pika.BasicProperties(headers={"CC": ["copy"], "mine": 1}, expiration="60000"))
    expected: list[tuple[str, str, int]] = []
    for attempt in range(1, 4):
        received = get(channel, work, auto_ack=False)
        assert received is not None
        method, properties, _ = received
        if attempt > 1:
            expected = [(wait, "expired", attempt - 1), (work, "rejected", attempt - 1)]
            assert deaths(properties) == expected, "the newest first, one entry for each queue and reason"
            headers = properties.headers
            first = headers["x-death"][1]
            assert (first["exchange"], first["routing-keys"]) == ("", [work, "copy"])
            assert isinstance(first["time"], datetime)
            assert first["original-expiration"] == "60000"
            assert (headers["x-first-death-queue"], headers["x-first-death-reason"]) == (work, "rejected")
            assert (headers["x-last-death-queue"], headers["x-last-death-reason"]) == (wait, "expired")
            assert headers["x-first-death-exchange"] == ""
            assert ("CC" in headers, properties.expiration) == (False, None), "another key, and no time of its own"
            assert headers["mine"] == 1
        channel.basic_reject(method.delivery_tag, requeue=False)


def test_a_cycle_without_a_rejection_ends(channel: BlockingChannel, fresh_name: FreshName) -> None:
    first, second = fresh_name("first"), fresh_name("second")
    queue(channel, first, arguments={**letters_to(second), "x-message-ttl": 50})
    queue(channel, second, arguments={**letters_to(first), "x-message-ttl": 50})
    channel.basic_publish("", first, b"x")
    eventually(lambda: count(channel, first) + count(channel, second) == 0, "it is dropped")
    time.sleep(0.3)
    assert count(channel, first) + count(channel, second) == 0


def test_a_queue_that_dead_letters_to_itself(channel: BlockingChannel, fresh_name: FreshName) -> None:
    name = fresh_name("self")
    queue(channel, name, arguments=letters_to(name))
    channel.basic_publish("", name, b"x")
    for attempt in range(3):  # Each rejection sends it round once more.
        received = get(channel, name, auto_ack=False)
        assert received is not None
        assert (received[1].headers or {}).get("x-death", [{"count": 0}])[0]["count"] == attempt
        channel.basic_reject(received[0].delivery_tag, requeue=False)


def test_a_history_counts_if_a_dead_letter_had_it(channel: BlockingChannel, fresh_name: FreshName) -> None:
    """A program that publishes a dead letter again goes on counting; a made-up history is left out."""
    dead, name = queue(channel, fresh_name("dead")), fresh_name("work")
    queue(channel, name, arguments=letters_to(dead))
    made_up = {"x-death": [{"queue": "elsewhere", "reason": "expired", "random": number} for number in range(5)]}
    properties = pika.BasicProperties(headers=made_up)
    for attempt in range(1, 4):
        channel.basic_publish("", name, b"x", properties)
        received = get(channel, name, auto_ack=False)
        assert received is not None
        channel.basic_reject(received[0].delivery_tag, requeue=False)
        letter = get(channel, dead)
        assert letter is not None
        properties = letter[1]
        assert deaths(properties) == [(name, "rejected", attempt)]


def test_the_reasons_maxlen_and_expired_with_every_copy(channel: BlockingChannel, fresh_name: FreshName) -> None:
    exchange, dead, also = fresh_name("dlx"), fresh_name("dead"), fresh_name("also")
    channel.exchange_declare(exchange, "fanout")
    for name in (dead, also):
        queue(channel, name)
        channel.queue_bind(name, exchange)
    source = queue(channel, fresh_name("short"), arguments={"x-dead-letter-exchange": exchange, "x-max-length": 1})
    for number in range(3):
        channel.basic_publish("", source, b"%d" % number)
    for name in (dead, also):
        for number in range(2):
            letter = get(channel, name)
            assert letter is not None
            assert (letter[2], letter[0].exchange, letter[0].routing_key) == (b"%d" % number, exchange, source)
            assert deaths(letter[1]) == [(source, "maxlen", 1)]


@pytest.mark.parametrize("overflow", ["drop-head", "reject-publish"])
def test_letters_respect_the_bound_of_their_queue(
    channel: BlockingChannel, fresh_name: FreshName, overflow: str
) -> None:
    dead = queue(channel, fresh_name("bounded"), arguments={"x-max-length": 2, "x-overflow": overflow})
    source = queue(channel, fresh_name("source"), arguments=letters_to(dead))
    for number in range(5):
        channel.basic_publish("", source, b"%d" % number)
        received = get(channel, source, auto_ack=False)
        assert received is not None
        channel.basic_nack(received[0].delivery_tag, requeue=False)
    if overflow == "drop-head":
        eventually(lambda: kept(channel, dead) == [b"3", b"4"], "the last ones stay")
    eventually(lambda: count(channel, dead) == 2, "no more than the bound")
    assert kept(channel, dead) == ([b"3", b"4"] if overflow == "drop-head" else [b"0", b"1"])


@pytest.mark.slow
def test_at_least_once_keeps_what_finds_no_room(channel: BlockingChannel, fresh_name: FreshName) -> None:
    dead = queue(channel, fresh_name("full"), arguments={"x-max-length": 1, "x-overflow": "reject-publish"})
    arguments = {
        **letters_to(dead),
        "x-queue-type": "quorum",
        "x-dead-letter-strategy": "at-least-once",
        "x-overflow": "reject-publish",
    }
    source = queue(channel, fresh_name("source"), durable=True, arguments=arguments)
    for number in range(2):
        channel.basic_publish("", source, b"%d" % number)
        received = get(channel, source, auto_ack=False)
        assert received is not None
        channel.basic_reject(received[0].delivery_tag, requeue=False)
    again = get(channel, source, auto_ack=False)
    assert again is None or (again[2], again[0].redelivered) == (b"1", True)
    first = get(channel, dead)
    if again is not None:  # It is delivered again after a while; or it waits on its way, in a cluster.
        channel.basic_reject(again[0].delivery_tag, requeue=False)
    second = get(channel, dead)
    assert [one[2] for one in (first, second) if one is not None] == [b"0", b"1"], "it is not lost"


def test_a_missing_dead_letter_exchange_drops(channel: BlockingChannel, fresh_name: FreshName) -> None:
    source = queue(channel, fresh_name("source"), arguments=letters_to("k", fresh_name("missing")))
    channel.basic_publish("", source, b"x")
    received = get(channel, source, auto_ack=False)
    assert received is not None
    channel.basic_reject(received[0].delivery_tag, requeue=False)
    assert count(channel, source) == 0


def test_a_quorum_queue_gives_up_after_twenty_redeliveries(channel: BlockingChannel, fresh_name: FreshName) -> None:
    dead = queue(channel, fresh_name("dead"))
    name = queue(channel, fresh_name("q"), durable=True, arguments={**letters_to(dead), "x-queue-type": "quorum"})
    channel.basic_publish("", name, b"x")
    counts: list[int] = []
    while (received := channel.basic_get(name))[0] is not None:
        method, properties, _ = received
        counts.append((properties.headers or {}).get("x-delivery-count", 0))
        channel.basic_nack(method.delivery_tag, requeue=True)
    assert counts == list(range(21))
    letter = get(channel, dead)
    assert letter is not None
    assert deaths(letter[1]) == [(name, "delivery_limit", 1)]


def test_the_delayed_message_exchange(channel: BlockingChannel, fresh_name: FreshName) -> None:
    exchange = fresh_name("delayed")
    channel.exchange_declare(exchange, "x-delayed-message", arguments={"x-delayed-type": "topic"})
    name = queue(channel, fresh_name("q"))
    channel.queue_bind(name, exchange, "a.#")
    for delay in (400, 0, -5, "soon", None):
        headers = {} if delay is None else {"x-delay": delay}
        channel.basic_publish(exchange, "a.b", str(delay).encode(), pika.BasicProperties(headers=headers))
    found = [get(channel, name) for _ in range(5)]
    assert [one[2] for one in found if one is not None] == [b"0", b"-5", b"soon", b"None", b"400"]
    assert found[4] is not None
    assert found[4][1].headers["x-delay"] == -400


@pytest.mark.parametrize("of", ["queue", "message"])
def test_a_time_to_live_of_zero_is_one_delivery_or_none(
    connect: Connect, channel: BlockingChannel, fresh_name: FreshName, of: str
) -> None:
    letters, name = queue(channel, fresh_name("letters")), fresh_name("now-or-never")
    queue(channel, name, arguments={**letters_to(letters), **({"x-message-ttl": 0} if of == "queue" else {})})
    properties = pika.BasicProperties(expiration="0" if of == "message" else None)
    for _ in range(20):
        channel.basic_publish("", name, b"nobody waits", properties)
        assert channel.basic_get(name)[0] is None
    eventually(lambda: count(channel, letters) == 20, "a letter for each")
    channel.queue_purge(letters)

    consumer = connect().channel()
    bodies: list[bytes] = []

    def give_back(_: object, method: Basic.Deliver, __: pika.BasicProperties, body: bytes) -> None:
        bodies.append(body)
        consumer.basic_nack(method.delivery_tag, requeue=True)

    consumer.basic_consume(name, give_back)
    for number in range(20):
        channel.basic_publish("", name, b"%d" % number, properties)
        while len(bodies) <= number or count(channel, letters) <= number:
            consumer.connection.process_data_events(0.01)
    assert bodies == [b"%d" % number for number in range(20)], "each was delivered once"

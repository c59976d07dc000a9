"""Methods that look at a queue find what the same client did before, and consumers come before basic.get."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest
from pika import BasicProperties
from pika.adapters.blocking_connection import BlockingChannel
from pika.spec import Basic

from soak.node import Node
from tests.clients.amqp.conftest import Connect
from tests.clients.amqp.management import Management
from tests.clients.amqp.test_order import bodies
from tests.left_out import leave_out

PATIENCE_S = 10.0


def declared(channel: BlockingChannel, **arguments: object) -> str:
    queue = channel.queue_declare("", exclusive=True, arguments=arguments or None).method.queue
    assert isinstance(queue, str)
    return queue


@pytest.mark.parametrize("arguments", [{}, {"x-max-length": 2}, {"x-max-priority": 9}])
def test_get_count_and_purge_find_what_was_published_before(
    channel: BlockingChannel, arguments: dict[str, int]
) -> None:
    queue = declared(channel, **arguments)
    for round_number in range(10):
        for number in range(2):
            channel.basic_publish("", queue, b"%d" % number, BasicProperties(priority=5 * number))
        first = channel.basic_get(queue, auto_ack=True)[2]
        assert first == (b"1" if "x-max-priority" in arguments else b"0"), round_number
        channel.basic_publish("", queue, b"2")
        assert channel.queue_declare(queue, passive=True).method.message_count == 2
        channel.basic_publish("", queue, b"3")
        assert channel.queue_purge(queue).method.message_count == (2 if "x-max-length" in arguments else 3)


def test_a_consumer_with_credit_comes_before_a_get(channel: BlockingChannel) -> None:
    queue = declared(channel)
    got: list[bytes] = []
    channel.basic_consume(queue, lambda _channel, _method, _properties, body: got.append(body), auto_ack=True)
    for number in range(10):
        channel.basic_publish("", queue, b"%d" % number)
        assert channel.basic_get(queue, auto_ack=True) == (None, None, None)
    _wait(channel, lambda: len(got) == 10)


def test_a_get_takes_what_the_credit_of_consumers_leaves(connect: Connect) -> None:
    channel = connect().channel()
    channel.basic_qos(prefetch_count=1)
    queue = declared(channel)
    got: list[bytes] = []
    channel.basic_consume(queue, lambda _channel, _method, _properties, body: got.append(body))
    channel.basic_publish("", queue, b"first")
    channel.basic_publish("", queue, b"second")
    assert channel.basic_get(queue, auto_ack=True)[2] == b"second"
    _wait(channel, lambda: got == [b"first"])


def test_leased_messages_take_no_room(channel: BlockingChannel) -> None:
    queue = declared(channel, **{"x-max-length": 2})
    for number in range(2):
        channel.basic_publish("", queue, b"%d" % number)
    assert [channel.basic_get(queue)[2] for _ in range(2)] == [b"0", b"1"]
    for number in range(2, 5):
        channel.basic_publish("", queue, b"%d" % number)
    assert bodies(channel, queue) == [b"3", b"4"]


@pytest.mark.parametrize("argument", ["x-max-length", "x-max-length-bytes", "x-message-ttl"])
def test_a_queue_without_room_passes_messages_to_its_consumers_only(channel: BlockingChannel, argument: str) -> None:
    queue = declared(channel, **{argument: 0})
    for _ in range(100):
        channel.basic_publish("", queue, b"lost")
        assert channel.basic_get(queue)[0] is None
    _wait(channel, lambda: channel.queue_declare(queue, passive=True).method.message_count == 0)
    got: list[bytes] = []
    channel.basic_consume(queue, lambda _channel, _method, _properties, body: got.append(body), auto_ack=True)
    channel.basic_publish("", queue, b"passed")
    _wait(channel, lambda: got == [b"passed"])


def test_queues_that_share_the_limit_of_a_channel_are_served_in_turn(connect: Connect) -> None:
    channel = connect().channel()
    channel.basic_qos(prefetch_count=1, global_qos=True)
    got: list[str] = []

    def take(_channel: object, method: Basic.Deliver, _properties: object, _body: bytes) -> None:
        got.append(method.consumer_tag)
        channel.basic_ack(method.delivery_tag)

    for name in "abc":
        queue = declared(channel)
        channel.queue_bind(queue, "amq.fanout")
        channel.basic_consume(queue, take, consumer_tag=name)
    for _ in range(30):
        channel.basic_publish("amq.fanout", "", b"")
    _wait(channel, lambda: len(got) >= 45)
    assert {"a", "b", "c"} <= set(got[:45])


def test_messages_without_acknowledgement_wait_for_the_limit_of_the_channel(connect: Connect) -> None:
    channel = connect().channel()
    channel.basic_qos(prefetch_count=1, global_qos=True)
    held: list[int] = []
    free: list[bytes] = []
    first, second = declared(channel), declared(channel)
    channel.basic_consume(first, lambda _channel, method, _properties, _body: held.append(method.delivery_tag))
    channel.basic_publish("", first, b"")
    _wait(channel, lambda: len(held) == 1)
    channel.basic_consume(second, lambda _channel, _method, _properties, body: free.append(body), auto_ack=True)
    for _ in range(2):
        channel.basic_publish("", second, b"")
    assert channel.queue_declare(second, passive=True).method.message_count == 2
    channel.basic_ack(held[0])
    _wait(channel, lambda: len(free) == 2)


def test_a_policy_of_length_holds_for_the_next_get(channel: BlockingChannel, hall: Node | None) -> None:
    if hall is None:
        leave_out("the management API of another server is at a port of its own")
    management = Management(hall.management)
    management.put("policies", "/", "short", body={"pattern": "^short-", "definition": {"max-length": 1}})
    try:
        queue = f"short-{time.time_ns()}"
        channel.queue_declare(queue, exclusive=True)
        for number in range(3):
            channel.basic_publish("", queue, b"%d" % number)
        assert bodies(channel, queue) == [b"2"]
    finally:
        management.delete("policies", "/", "short")


def _wait(channel: BlockingChannel, done: Callable[[], bool]) -> None:
    until_s = time.monotonic() + PATIENCE_S
    while not done() and time.monotonic() < until_s:
        channel.connection.process_data_events(0.05)
    assert done()

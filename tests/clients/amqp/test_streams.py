"""Streams: queues that many consumers read from any position, and from which none removes anything."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta
from typing import Any

import pika
import pytest
from pika.adapters.blocking_connection import BlockingChannel

from tests.clients.amqp.conftest import Connect
from tests.clients.amqp.test_pika import refused
from tests.clients.conftest import FreshName

STREAM = {"x-queue-type": "stream"}


def stream(channel: BlockingChannel, name: str, **arguments: Any) -> str:
    channel.queue_declare(name, durable=True, arguments={**STREAM, **arguments})
    return name


def read(channel: BlockingChannel, name: str, count: int, start: Any = "first", **more: Any) -> list[tuple[int, bytes]]:
    """Offsets and bodies of so many messages, each acknowledged; and that no more come."""
    channel.basic_qos(prefetch_count=3)
    found: list[tuple[int, bytes]] = []
    arguments = {"x-stream-offset": start, **more}
    for method, properties, body in channel.consume(name, arguments=arguments, inactivity_timeout=10 if count else 0.5):
        if method is None:
            break
        found.append((properties.headers["x-stream-offset"], body))
        channel.basic_ack(method.delivery_tag)
        if len(found) == count:
            channel.connection.process_data_events(0.2)
            break
    channel.cancel()
    return found


def fill(channel: BlockingChannel, name: str, count: int) -> None:
    channel.confirm_delivery()
    for number in range(count):
        channel.basic_publish("", name, b"%d" % number, pika.BasicProperties(headers={"n": number}))


def test_consumers_start_anywhere_and_remove_nothing(connect: Connect, fresh_name: FreshName) -> None:
    connection = connect()
    channel = connection.channel()
    name = stream(channel, fresh_name("stream"))
    fill(channel, name, 10)
    whole = [(number, b"%d" % number) for number in range(10)]
    for start, expected in (
        ("first", whole),
        (4, whole[4:]),
        ("last", whole[9:]),
        (datetime.now(UTC) - timedelta(hours=1), whole),
        ("1h", whole),
        (1000, []),
        ("next", []),
    ):
        assert read(connection.channel(), name, len(expected), start) == expected, start
    assert channel.queue_declare(name, passive=True).method.message_count == 10


def test_acknowledging_is_credit_and_every_consumer_gets_everything(connect: Connect, fresh_name: FreshName) -> None:
    channels = [connect().channel() for _ in range(3)]
    name = stream(channels[0], fresh_name("stream"))
    got: dict[int, list[tuple[int, int]]] = {0: [], 1: [], 2: []}
    for at, channel in enumerate(channels):
        channel.basic_qos(prefetch_count=4)
        channel.basic_consume(
            name,
            lambda _, method, properties, body, at=at: got[at].append(
                (method.delivery_tag, properties.headers["x-stream-offset"])
            ),
            arguments={"x-stream-offset": "first"},
        )
    fill(connect().channel(), name, 10)
    for at, channel in enumerate(channels):
        deadline = time.monotonic() + 10
        while len(got[at]) < 4 and time.monotonic() < deadline:
            channel.connection.process_data_events(0.1)
        channel.connection.process_data_events(0.3)
        assert [offset for _, offset in got[at]] == [0, 1, 2, 3], "no more than the prefetch"
    channels[1].basic_nack(got[1][3][0], multiple=True, requeue=True)
    deadline = time.monotonic() + 10
    while len(got[1]) < 8 and time.monotonic() < deadline:
        channels[1].connection.process_data_events(0.1)
    assert [offset for _, offset in got[1]] == list(range(8)), "nothing comes twice: giving back is credit, too"
    channels[0].connection.process_data_events(0.2)
    assert len(got[0]) == 4


def test_filters(connect: Connect, fresh_name: FreshName) -> None:
    connection = connect()
    channel = connection.channel()
    name = stream(channel, fresh_name("stream"))
    channel.confirm_delivery()
    for number, region in enumerate(["eu", "us", "", "ap"] * 3):
        headers = {"x-stream-filter-value": region} if region else {}
        channel.basic_publish("", name, b"%d" % number, pika.BasicProperties(headers=headers))

    def offsets(count: int, **arguments: Any) -> list[int]:
        return [offset for offset, _ in read(connection.channel(), name, count, **arguments)]

    assert offsets(3, **{"x-stream-filter": "us"}) == [1, 5, 9]
    assert offsets(6, **{"x-stream-filter": ["us", "ap"]}) == [1, 3, 5, 7, 9, 11]
    assert offsets(6, **{"x-stream-filter": "us", "x-stream-match-unfiltered": True}) == [1, 2, 5, 6, 9, 10]


@pytest.mark.slow
def test_a_stream_keeps_what_its_size_allows(connect: Connect, fresh_name: FreshName) -> None:
    connection = connect()
    channel = connection.channel()
    name = fresh_name("stream")
    stream(
        channel, name, **{"x-max-length-bytes": 100_000, "x-stream-max-segment-size-bytes": 20_000, "x-max-age": "7D"}
    )
    channel.confirm_delivery()
    for number in range(60):
        channel.basic_publish("", name, b"%04d" % number * 1000)
    deadline = time.monotonic() + 60
    first = 0
    while first == 0 and time.monotonic() < deadline:
        first = read(connection.channel(), name, 1)[0][0]
        time.sleep(0.5)
    assert 0 < first < 60


def test_what_streams_refuse(connect: Connect, fresh_name: FreshName) -> None:
    name = stream(connect().channel(), fresh_name("stream"))
    refusals = [
        (406, "consumer prefetch count is not set", lambda one: one.basic_consume(name, print)),
        (406, "inequivalent arg 'x-queue-type'", lambda one: one.queue_declare(name, durable=True)),
    ]
    wrong: list[tuple[dict[str, Any], bool, bool]] = [
        ({"x-message-ttl": 1}, True, False),
        ({"x-max-age": "long"}, True, False),
        ({}, False, False),
        ({}, True, True),
    ]
    for given in wrong:

        def declare(channel: BlockingChannel, given: tuple[dict[str, Any], bool, bool] = given) -> object:
            arguments, durable, exclusive = given
            arguments = {**STREAM, **arguments}
            return channel.queue_declare(
                fresh_name("stream"), durable=durable, exclusive=exclusive, arguments=arguments
            )

        refusals.append((406, "invalid", declare))
    refusals.append(
        (406, "server-named", lambda one: one.queue_declare("", durable=True, arguments={"x-queue-type": "stream"}))
    )
    for code, text, act in refusals:
        refused(connect, code, text, act)

    def consume(channel: BlockingChannel, **options: Any) -> None:
        channel.basic_qos(prefetch_count=1)
        channel.basic_consume(name, print, **options)

    refused(connect, 406, "x-stream-offset", lambda one: consume(one, arguments={"x-stream-offset": "soon"}))
    for act in (
        lambda one: one.basic_get(name),
        lambda one: one.queue_purge(name),
        lambda one: consume(one, auto_ack=True),
        lambda one: one.queue_delete(name, if_empty=True),
    ):
        with pytest.raises(pika.exceptions.ConnectionClosedByBroker) as caught:
            act(connect().channel())
        assert caught.value.reply_code == 540


@pytest.mark.parametrize("kind", ["classic", "quorum", "stream"])
def test_hints_of_placement_are_checked_and_kept(connect: Connect, fresh_name: FreshName, kind: str) -> None:
    channel = connect().channel()
    hints = {"x-queue-leader-locator": "balanced", "x-initial-cluster-size": 3, "x-quorum-initial-group-size": 3}
    more = {"x-stream-filter-size-bytes": 32} if kind == "stream" else {}
    arguments = {"x-queue-type": kind, **hints, **more}
    name = fresh_name("placed")
    for _ in range(2):
        channel.queue_declare(name, durable=True, arguments=arguments)
    for wrong in ({"x-queue-leader-locator": "moon"}, {"x-initial-cluster-size": 0}):
        with pytest.raises(pika.exceptions.ChannelClosedByBroker) as closed:
            connect().channel().queue_declare(name + "-2", durable=True, arguments={**arguments, **wrong})
        assert closed.value.reply_code == 406

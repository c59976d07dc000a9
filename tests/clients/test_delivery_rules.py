"""Rules of delivery at the doors that push: one by one, delivery hours and positions, for pika, stomp.py and share
consumers.
"""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pika
import pytest
import stomp
from confluent_kafka import AcknowledgeType, ShareConsumer

from soak.node import Node
from tests.console.api.asking import Asking

WAIT_S = 30.0
QUIET_S = 1.0
POSITION = ("partition", "offset", "sequence")
_numbers = itertools.count(1)


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Node]:
    with Node(tmp_path_factory.mktemp("delivery-rules") / "data") as running:
        yield running


@pytest.fixture
def ask(node: Node) -> Iterator[Asking]:
    asking = Asking(node.http)
    yield asking
    asking.close()


class PikaConsumer:
    """Consumes with a prefetch of ten."""

    def __init__(self, node: Node, queue: str) -> None:
        host, _, port = node.amqp.rpartition(":")
        self._connection = pika.BlockingConnection(pika.ConnectionParameters(host, int(port)))
        self._channel = self._connection.channel()
        self._channel.basic_qos(prefetch_count=10)
        self._got: list[tuple[int, bytes]] = []
        self._channel.basic_consume(queue, lambda _, method, __, body: self._got.append((method.delivery_tag, body)))

    def more(self, seconds: float) -> list[tuple[Any, bytes]]:
        deadline = time.monotonic() + seconds
        while not self._got and time.monotonic() < deadline:
            self._connection.process_data_events(0.1)
        got, self._got = self._got, []
        return list(got)

    def settle(self, tag: Any) -> None:
        self._channel.basic_ack(tag)

    def close(self) -> None:
        self._connection.close()


class StompConsumer(stomp.ConnectionListener):  # type: ignore[misc]
    """Subscribes with acknowledgements of its own."""

    def __init__(self, node: Node, queue: str, asked: dict[str, str] | None = None) -> None:
        self.headers: list[dict[str, str]] = []
        host, _, port = node.stomp.rpartition(":")
        self._got: list[tuple[str, bytes]] = []
        self._came = threading.Event()
        self._connection = stomp.Connection12([(host, int(port))])
        self._connection.set_listener("messages", self)
        self._connection.connect(wait=True)
        self._connection.subscribe(f"/amq/queue/{queue}", id="1", ack="client-individual", headers=asked)

    def on_message(self, frame: Any) -> None:
        self.headers.append(frame.headers)
        self._got.append((frame.headers["ack"], frame.body.encode()))
        self._came.set()

    def more(self, seconds: float) -> list[tuple[Any, bytes]]:
        self._came.wait(seconds)
        self._came.clear()
        got, self._got = self._got, []
        return list(got)

    def settle(self, tag: Any) -> None:
        self._connection.ack(tag)

    def close(self) -> None:
        self._connection.disconnect()


class ShareMember:
    """A share consumer of librdkafka."""

    def __init__(self, node: Node, queue: str) -> None:
        group = f"share-{queue}"
        settings = {"bootstrap.servers": node.bootstrap, "group.id": group, "share.acknowledgement.mode": "explicit"}
        self._member = ShareConsumer(settings)
        self._member.subscribe([queue])

    def more(self, seconds: float) -> list[tuple[Any, bytes]]:
        deadline = time.monotonic() + seconds
        got: list[Any] = []
        while not got and time.monotonic() < deadline:
            got = list(self._member.poll(timeout=0.2))
        return [(message, message.value()) for message in got]

    def settle(self, tag: Any) -> None:
        self._member.acknowledge(tag, AcknowledgeType.ACCEPT)
        assert set(self._member.commit_sync().values()) <= {None}

    def close(self) -> None:
        self._member.close()


def test_an_amqp_consumer_learns_where_messages_are(node: Node, ask: Asking) -> None:
    plain, fifo = made(ask, {}, "a", "b"), made(ask, {"fifo": True})
    grouped = [{"body": body, "group": "g", "deduplication_id": body} for body in ("a", "b")]
    sent = ask.good("POST", f"queues/{fifo}/messages", {"messages": grouped})["messages"]
    host, _, port = node.amqp.rpartition(":")
    connection = pika.BlockingConnection(pika.ConnectionParameters(host, int(port)))
    found: list[dict[str, int]] = []
    for queue, wants in ((plain, {"x-longhall-positions": True}), (fifo, {"x-longhall-positions": True})):
        channel = connection.channel()
        for _, properties, _ in channel.consume(queue, arguments=wants, inactivity_timeout=WAIT_S):
            found.append(properties.headers)
            if len(found) % 2 == 0:
                break
        channel.close()
    assert [set(headers) for headers in found] == [{f"longhall.{word}" for word in POSITION}] * 4
    assert [headers["longhall.offset"] for headers in found[:2]] == [0, 1]
    assert [headers["longhall.sequence"] for headers in found[2:]] == [one["sequence"] for one in sent]
    channel = connection.channel()
    [(_, properties, _)] = itertools.islice(channel.consume(plain, inactivity_timeout=WAIT_S), 1)
    assert properties.headers is None
    channel.close()
    with pytest.raises(pika.exceptions.ChannelClosedByBroker, match="x-longhall-positions"):
        connection.channel().basic_consume(plain, print, arguments={"x-longhall-positions": "yes"})
    connection.close()


def test_a_stomp_subscription_learns_where_messages_are(node: Node, ask: Asking) -> None:
    queue = made(ask, {}, "a", "b")
    consumer = StompConsumer(node, queue, {"x-longhall-positions": "true"})
    while len(consumer.headers) < 2:
        consumer.more(WAIT_S)
    assert [headers["longhall.offset"] for headers in consumer.headers] == ["0", "1"]
    assert {f"longhall.{word}" for word in POSITION} < set(consumer.headers[0])
    consumer.close()


consumers = pytest.mark.parametrize("consume", [PikaConsumer, StompConsumer, ShareMember])


def made(ask: Asking, settings: dict[str, object], *bodies: str) -> str:
    """A queue with these settings and messages."""
    name = f"rules-{next(_numbers)}" + (".fifo" if settings.get("fifo") else "")
    ask.good("POST", "queues", {"name": name, "settings": settings})
    if bodies:
        ask.good("POST", f"queues/{name}/messages", {"messages": [{"body": body} for body in bodies]})
    return name


@consumers
def test_one_by_one_the_next_waits_for_the_one_before(node: Node, ask: Asking, consume: Callable[..., Any]) -> None:
    consumer = consume(node, made(ask, {"one_by_one": True}, "a", "b", "c"))
    for expected in (b"a", b"b", b"c"):
        [(tag, body)] = consumer.more(WAIT_S)
        assert body == expected
        if not isinstance(consumer, ShareMember):  # A share member settles before it polls again.
            assert consumer.more(QUIET_S) == []
        consumer.settle(tag)
    consumer.close()


@consumers
def test_nothing_is_delivered_outside_the_hours(node: Node, ask: Asking, consume: Callable[..., Any]) -> None:
    minute = int(time.time()) // 60
    closed = {"from_minute": (minute + 120) % 1440, "to_minute": (minute + 180) % 1440}
    now = {"from_minute": (minute - 60) % 1440, "to_minute": (minute + 60) % 1440}
    queue = made(ask, {"hours": closed}, "late")
    consumer = consume(node, queue)
    assert consumer.more(3 * QUIET_S) == []
    ask.good("PATCH", f"queues/{queue}", {"settings": {"hours": {**closed, "also": [now]}}})
    [(tag, body)] = consumer.more(WAIT_S)
    assert body == b"late"
    consumer.settle(tag)
    consumer.close()

"""What a client publishes in one go: each queue has it in the order of publishing, whatever ways the messages take."""

from __future__ import annotations

import pytest
from pika.adapters.blocking_connection import BlockingChannel

from longhall.doors.amqp.wire import methods
from longhall.doors.amqp.wire.frames import content_frames, method_frame
from longhall.doors.amqp.wire.methods import METHODS, encode_arguments
from longhall.exchanges.properties import Properties, encode_properties
from tests.clients.amqp.test_malformed import raw

PERSISTENT = b"\x10\0\x02"


def content(exchange: str, key: str, body: bytes, properties: bytes = PERSISTENT, frame_max: int = 0) -> bytes:
    arguments = encode_arguments(METHODS[methods.BASIC_PUBLISH].form, [0, exchange, key, False, False])
    payload = methods.BASIC_PUBLISH.to_bytes(4, "big") + arguments
    return content_frames(1, payload, properties, body, frame_max)


def bodies(channel: BlockingChannel, queue: str) -> list[bytes]:
    found = []
    while (got := channel.basic_get(queue, auto_ack=True))[0] is not None:
        assert got[2] is not None
        found.append(got[2])
    return found


@pytest.mark.parametrize("cut", [0, 1, 700])
def test_queues_have_messages_in_the_order_of_publishing(
    channel: BlockingChannel, address: tuple[str, int], cut: int
) -> None:
    for queue in ("order-a", "order-b"):
        channel.queue_declare(queue, durable=True)
        channel.queue_purge(queue)
    channel.exchange_declare("order-both", "fanout")
    channel.queue_bind("order-a", "order-both")
    channel.queue_bind("order-b", "order-both")
    named = Properties()
    named.content_type = "text/plain"
    named.message_id = "7"
    sent = [
        content("", "order-a", b"1"),
        content("order-both", "", b"2"),
        content("", "order-b", b"3", encode_properties(named)),
        content("", "order-a", b"4" * 300, frame_max=108),  # Several body frames.
        content("", "order-b", b"5"),
        content("order-both", "", b"", b"\0\0"),  # No body frame.
        content("", "order-a", b"6"),
    ]
    data = b"".join(sent)
    with raw(address) as connection:
        connection.log_in()
        connection.socket.sendall(method_frame(1, methods.CHANNEL_OPEN, ""))
        connection.method(methods.CHANNEL_OPEN_OK)
        connection.socket.sendall(method_frame(1, methods.CONFIRM_SELECT, False))
        connection.method(methods.CONFIRM_SELECT_OK)
        connection.socket.sendall(data[:cut])
        connection.socket.sendall(data[cut:])
        confirmed = 0
        while confirmed < len(sent):
            number = connection.method(methods.BASIC_ACK)[0]
            assert isinstance(number, int)
            confirmed = max(confirmed, number)
    assert bodies(channel, "order-a") == [b"1", b"2", b"4" * 300, b"", b"6"]
    assert bodies(channel, "order-b") == [b"2", b"3", b"5", b""]


def test_the_last_messages_stay_in_a_queue_that_drops_its_head(
    channel: BlockingChannel, address: tuple[str, int]
) -> None:
    """Messages that wait until older ones have gone are not overtaken by those behind them."""
    channel.queue_declare("order-a", durable=True)
    arguments = {"x-max-length-bytes": 20}
    for turn in range(3):
        name = channel.queue_declare("", exclusive=False, auto_delete=True, arguments=arguments).method.queue
        with raw(address) as connection:
            connection.log_in()
            connection.socket.sendall(method_frame(1, methods.CHANNEL_OPEN, ""))
            for first in range(1000, 4000, 7):
                sent = [content("", name, b"%d" % number) for number in range(first, first + 7)]
                connection.socket.sendall(b"".join(sent))
            connection.socket.sendall(method_frame(1, methods.QUEUE_PURGE, 0, "order-a", False))
            connection.method(methods.CHANNEL_OPEN_OK)
            connection.method(methods.QUEUE_PURGE_OK)
        assert bodies(channel, name) == [b"%d" % number for number in range(3998, 4003)], turn
        channel.queue_delete(name)


def test_a_small_message_does_not_overtake_one_that_is_stored_in_parts(channel: BlockingChannel) -> None:
    name = channel.queue_declare("", exclusive=True).method.queue
    for number in (b"1", b"2", b"3"):
        channel.basic_publish("", name, number * 5_000_000)
        channel.basic_publish("", name, number)
    assert channel.queue_declare(name, passive=True).method.message_count == 6
    assert [body[:1] for body in bodies(channel, name)] == [b"1", b"1", b"2", b"2", b"3", b"3"]

"""What a client gives back and then looks for, and the end of channels and connections."""

from __future__ import annotations

from typing import Any

import pytest
from pika.adapters.blocking_connection import BlockingChannel

from longhall.doors.amqp.wire import methods
from longhall.doors.amqp.wire.frames import method_frame
from tests.clients.amqp.conftest import Connect
from tests.clients.amqp.test_malformed import raw
from tests.clients.amqp.test_order import content
from tests.clients.conftest import FreshName

ROUNDS = 30


def test_a_message_that_was_given_back_is_found_by_the_next_get(
    channel: BlockingChannel, fresh_name: FreshName
) -> None:
    name = fresh_name("back")
    channel.queue_declare(name)
    channel.basic_publish("", name, b"x")
    for _ in range(ROUNDS):
        method, _, body = channel.basic_get(name)
        assert (body, method is not None) == (b"x", True)
        channel.basic_reject(method.delivery_tag, requeue=True)
        assert channel.queue_declare(name, passive=True).method.message_count == 1


def test_a_cancelled_consumer_leaves_nothing_leased(connect: Connect, fresh_name: FreshName) -> None:
    """pika gives back what its program has not seen just before it cancels; it would be pushed once more."""
    connection = connect()
    for number in range(ROUNDS):
        name = fresh_name(f"cancelled-{number}")
        channel = connection.channel()
        channel.confirm_delivery()
        channel.queue_declare(name)
        channel.basic_publish("", name, b"1")
        channel.basic_publish("", name, b"2")

        def stop(channel: BlockingChannel, method: Any, properties: Any, body: bytes) -> None:
            channel.stop_consuming()
            channel.basic_ack(method.delivery_tag)

        channel.basic_consume(name, stop)
        channel.start_consuming()
        channel.close()
        channel = connection.channel()
        assert channel.basic_get(name, auto_ack=True)[2] == b"2"
        channel.queue_delete(name)
        channel.close()


@pytest.mark.parametrize("end", ["reject", "close", "recover"])
def test_a_closed_channel_has_given_back_its_messages(connect: Connect, fresh_name: FreshName, end: str) -> None:
    connection = connect()
    name = fresh_name("closed")
    connection.channel().queue_declare(name)
    connection.channel().basic_publish("", name, b"x")
    for _ in range(ROUNDS):
        channel = connection.channel()
        method, _, body = channel.basic_get(name)
        assert (body, method is not None) == (b"x", True)
        if end == "reject":
            channel.basic_reject(method.delivery_tag, requeue=True)
        elif end == "recover":
            channel.basic_recover(requeue=True)
        channel.close()


def test_a_client_that_closes_its_connection_may_send_the_rest_of_its_frames(
    address: tuple[str, int], channel: BlockingChannel, fresh_name: FreshName
) -> None:
    name = fresh_name("rest")
    channel.queue_declare(name)
    late = content("", name, b"late" * 250) * 2000
    with raw(address) as connection:
        connection.log_in()
        connection.socket.sendall(method_frame(1, methods.CHANNEL_OPEN, ""))
        connection.method(methods.CHANNEL_OPEN_OK)
        connection.socket.sendall(method_frame(0, methods.CONNECTION_CLOSE, 200, "Goodbye", 0, 0))
        connection.method(methods.CONNECTION_CLOSE_OK)
        for at in range(0, len(late), 65536):
            connection.socket.sendall(late[at : at + 65536])
    assert channel.queue_declare(name, passive=True).method.message_count == 0

"""Transactions of a channel: what is published and acknowledged happens together, or not at all."""

from __future__ import annotations

import pika
import pika.exceptions
import pytest
from pika.adapters.blocking_connection import BlockingChannel

from tests.clients.amqp.conftest import Connect
from tests.clients.conftest import FreshName


def _counts(connect: Connect, *queues: str) -> list[int]:
    channel = connect().channel()
    found = [channel.queue_declare(queue, passive=True).method.message_count for queue in queues]
    channel.connection.close()
    return found


def _taken(channel: BlockingChannel, queue: str) -> tuple[int, bytes]:
    method, _, body = channel.basic_get(queue)
    assert method is not None
    return method.delivery_tag, body


def test_a_commit_moves_messages_between_queues(connect: Connect, fresh_name: FreshName) -> None:
    channel = connect().channel()
    source, target, dead = fresh_name("tx"), fresh_name("tx"), fresh_name("tx")
    letters = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": dead}
    channel.queue_declare(source, durable=True, arguments=letters)
    channel.queue_declare(target, durable=True)
    channel.queue_declare(dead, durable=True)
    for number in range(3):
        channel.basic_publish("", source, b"%d" % number)
    channel.tx_select()
    tags = [_taken(channel, source)[0] for _ in range(3)]
    channel.basic_ack(tags[0])
    channel.basic_reject(tags[1], requeue=False)
    channel.basic_nack(tags[2], requeue=True)
    channel.basic_publish("", target, b"done")
    assert _counts(connect, source, target, dead) == [0, 0, 0], "nothing happens before the commit"
    channel.tx_commit()
    assert _counts(connect, source, target, dead) == [1, 1, 1]
    method, properties, body = channel.basic_get(dead)
    assert method is not None
    assert (body, properties.headers["x-death"][0]["reason"]) == (b"1", "rejected")
    assert _taken(channel, source)[1] == b"2"


def test_a_refused_commit_changes_nothing(connect: Connect, fresh_name: FreshName) -> None:
    channel = connect().channel()
    source, full = fresh_name("tx"), fresh_name("tx")
    channel.queue_declare(source, durable=True)
    channel.queue_declare(full, durable=True, arguments={"x-max-length": 1, "x-overflow": "reject-publish"})
    channel.basic_publish("", source, b"work")
    channel.basic_publish("", full, b"full")
    for exchange, key, code in (("", full, 406), (fresh_name("tx"), "k", 404)):
        channel = connect().channel()
        channel.tx_select()
        tag, body = _taken(channel, source)
        assert body == b"work"
        channel.basic_ack(tag)
        channel.basic_publish("", source, b"more")
        channel.basic_publish(exchange, key, b"too much")
        with pytest.raises(pika.exceptions.ChannelClosedByBroker) as refused:
            channel.tx_commit()
        assert refused.value.reply_code == code
        assert _counts(connect, source, full) == [1, 1], "the acknowledged message is back, and nothing is published"


def test_what_a_transaction_has_not_committed_goes_back_with_its_channel(
    connect: Connect, fresh_name: FreshName
) -> None:
    connection = connect()
    channel = connection.channel()
    name = fresh_name("tx")
    channel.queue_declare(name, durable=True)
    channel.basic_publish("", name, b"work")
    channel.tx_select()
    channel.basic_ack(_taken(channel, name)[0])
    channel.close()
    again = connection.channel()
    method, _, body = again.basic_get(name)
    assert method is not None
    assert (method.redelivered, body) == (True, b"work")


def test_a_mandatory_message_without_a_queue_is_returned_by_the_commit(connect: Connect, fresh_name: FreshName) -> None:
    channel = connect().channel()
    returned: list[bytes] = []
    channel.add_on_return_callback(lambda *content: returned.append(content[3]))
    channel.tx_select()
    channel.basic_publish("", fresh_name("tx"), b"nowhere", mandatory=True)
    channel.tx_commit()
    channel.connection.process_data_events(0.2)
    assert returned == [b"nowhere"]


def test_the_modes_of_a_channel_exclude_each_other(connect: Connect) -> None:
    channel = connect().channel()
    with pytest.raises(pika.exceptions.ChannelClosedByBroker, match="channel is not transactional"):
        channel.tx_commit()
    channel = connect().channel()
    with pytest.raises(pika.exceptions.ChannelClosedByBroker, match="channel is not transactional"):
        channel.tx_rollback()
    channel = connect().channel()
    channel.tx_select()
    channel.tx_select()
    with pytest.raises(pika.exceptions.ChannelClosedByBroker, match="cannot switch from tx to confirm mode"):
        channel.confirm_delivery()
    channel = connect().channel()
    channel.confirm_delivery()
    with pytest.raises(pika.exceptions.ChannelClosedByBroker, match="cannot switch from confirm to tx mode"):
        channel.tx_select()

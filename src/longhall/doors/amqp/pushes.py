"""Pushes of the service to a connection: deliveries of consumers, their end, and direct replies."""

from __future__ import annotations

from typing import TYPE_CHECKING

from longhall.broker.queues.consumers.session import PushedMessages
from longhall.directory.rate_limits import RECEIVE
from longhall.doors.amqp.channel import Channel
from longhall.doors.amqp.deliveries import append_delivery, with_position, with_stream_offset
from longhall.doors.amqp.unacknowledged import ChannelConsumer, Unacknowledged
from longhall.doors.amqp.wire import methods
from longhall.doors.amqp.wire.frames import method_frame
from longhall.exchanges.field_table import encode_short
from longhall.queues.messages import Delivery
from longhall.service.exchange_operations import UNSEEN, EndHeld

if TYPE_CHECKING:
    from longhall.doors.amqp.connection import AmqpConnection


def take_push(connection: AmqpConnection, push: PushedMessages, is_direct: bool) -> None:
    """Deliver the messages of a push."""
    if is_direct:
        for delivery in push.deliveries:
            _reply(connection, delivery)
        return
    found = connection.consumers.get(push.consumer)
    if found is None:
        _return(connection, push)
        return
    channel, consumer = found
    if consumer.early is not None:
        consumer.early.append(push)
        return
    if not push.deliveries:
        del connection.consumers[push.consumer]
        channel.consumers.pop(consumer.tag, None)
        if connection.handshake.capabilities.get("consumer_cancel_notify") is True:
            connection.write(method_frame(channel.number, methods.BASIC_CANCEL, consumer.tag, True))
        return
    if consumer.stream is not None:
        consumer.stream.offset = push.deliveries[-1].offset + 1
        for delivery in push.deliveries:
            delivery.amqp = with_stream_offset(delivery, consumer.shown_queue)
    if consumer.positions:
        for delivery in push.deliveries:
            delivery.amqp = with_position(delivery, consumer.shown_queue)
    _deliver(connection, channel, consumer, push.deliveries)


def _deliver(
    connection: AmqpConnection, channel: Channel, consumer: ChannelConsumer, deliveries: list[Delivery]
) -> None:
    """Send messages to a consumer, in one piece."""
    frame_max: int = connection.handshake.frame_max
    tag, queue, counts = consumer.tag_bytes, consumer.shown_queue, consumer.counts
    holds = not consumer.no_ack
    number = channel.delivery_number
    parts: list[bytes] = []
    for delivery in deliveries:
        number += 1
        if holds:
            channel.unacknowledged[number] = Unacknowledged(number, consumer.queue, delivery.receipt, consumer)
        append_delivery(parts, channel.number, tag, number, delivery, queue, counts, frame_max)
    channel.delivery_number = number
    if holds:
        consumer.outstanding += len(deliveries)
    connection.write(b"".join(parts))
    redelivered = sum([delivery.attempts > 1 for delivery in deliveries])
    if connection.pace.limits.active:
        size_bytes = sum([len(delivery.body) for delivery in deliveries])
        count = len(deliveries)
        connection.pace.charge(
            connection.caller, RECEIVE, consumer.queue, size_bytes=size_bytes, messages=count, requests=count
        )
    connection.server.statistics.pushed(len(deliveries), redelivered, consumer.no_ack)


def _reply(connection: AmqpConnection, delivery: Delivery) -> None:
    channel = connection.channels.get(int(delivery.group)) if delivery.group.isdecimal() else None
    if channel is None or not channel.reply_tag:
        return
    channel.delivery_number += 1
    tag = encode_short(channel.reply_tag)
    frame_max = connection.handshake.frame_max
    parts: list[bytes] = []
    append_delivery(parts, channel.number, tag, channel.delivery_number, delivery, "", False, frame_max)
    connection.write(b"".join(parts))


def _return(connection: AmqpConnection, push: PushedMessages) -> None:
    """Give back messages for a consumer that was cancelled meanwhile."""
    receipts = [delivery.receipt for delivery in push.deliveries if delivery.receipt]
    if receipts:
        connection.service.call(EndHeld(push.queue, connection.session_id, receipts, UNSEEN, []), connection.caller)

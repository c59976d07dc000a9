"""Basic methods: publishing, consuming, getting, and the end of deliveries."""

from __future__ import annotations

from typing import Any, Final

from longhall.broker.queues.consumers.stream_reader import StreamStart
from longhall.directory.rate_limits import RECEIVE
from longhall.doors.amqp import errors
from longhall.doors.amqp.channel import Channel, Content
from longhall.doors.amqp.declarations import is_quorum
from longhall.doors.amqp.deliveries import POSITIONS, get_frames
from longhall.doors.amqp.errors import AmqpError, precondition, queue_text
from longhall.doors.amqp.handlers.queues import REPLY_TO, found, found_unless_stream, named
from longhall.doors.amqp.publications import publication_of
from longhall.doors.amqp.streams import OFFSET, is_stream, start_of
from longhall.doors.amqp.unacknowledged import ChannelConsumer, Unacknowledged
from longhall.doors.amqp.wire import methods
from longhall.doors.amqp.wire.frames import method_frame
from longhall.doors.amqp.wire.methods import Arguments
from longhall.errors import Code, LonghallError
from longhall.exchanges.field_table import MalformedTable, decode_table
from longhall.exchanges.names import hall_name
from longhall.exchanges.properties import decode_properties, encode_properties
from longhall.service.exchange_operations import (
    REJECT,
    REQUEUE,
    SETTLE,
    CancelConsumer,
    LimitChannel,
    TakeMessage,
)

CONSUMER_TAG: Final = "amq.ctag-"
TRANSACTION_BYTES_MAX: Final = 4 * 1024 * 1024  # One atomic write.
MESSAGE_OVERHEAD_BYTES: Final = 200
PRIORITY_MAX: Final = (1 << 31) - 1


def publish(channel: Channel, arguments: Arguments, content: Content | None) -> None:
    """basic.publish"""
    assert content is not None
    assert content.properties is not None
    _, exchange, key, mandatory, immediate = arguments
    if immediate:
        raise AmqpError(errors.NOT_IMPLEMENTED, "immediate=true")
    connection = channel.connection
    properties = content.properties
    try:
        if REPLY_TO.encode() in properties:
            properties = _with_reply(channel, properties)
        user = connection.handshake.user
        publication = publication_of(connection.host, exchange, key, properties, content.body, user)
    except MalformedTable as error:
        raise AmqpError(errors.SYNTAX_ERROR, str(error)) from None
    connection.server.statistics.published(len(content.body), channel.confirms)
    connection.origin.has_published = True
    if channel.is_transactional:
        channel.transaction_bytes += len(content.body) + MESSAGE_OVERHEAD_BYTES
        if channel.transaction_bytes > TRANSACTION_BYTES_MAX:
            raise AmqpError(errors.RESOURCE_ERROR, f"a transaction has at most {TRANSACTION_BYTES_MAX} bytes")
        channel.transaction.append((publication, mandatory))
    else:
        connection.publisher.publish(channel, publication, mandatory)


def _with_reply(channel: Channel, raw: bytes) -> bytes:
    """The properties with a direct reply address of this channel in place of the name that stands for it."""
    properties = decode_properties(raw)
    if properties.reply_to != REPLY_TO:
        return raw
    if not channel.reply_tag:
        raise precondition("fast reply consumer does not exist")
    properties.reply_to = f"{REPLY_TO}.{channel.connection.session_id}.{channel.number}"
    return encode_properties(properties)


# Consumers


def qos(channel: Channel, arguments: Arguments, content: Content | None) -> Any:
    """basic.qos"""
    size, prefetch, is_global = arguments
    if size:
        raise AmqpError(errors.NOT_IMPLEMENTED, f"prefetch_size!=0 ({size})")
    if is_global:
        return _limit(channel, prefetch)
    channel.prefetch = prefetch
    channel.connection.write(method_frame(channel.number, methods.BASIC_QOS_OK))
    return None


async def _limit(channel: Channel, limit: int) -> None:
    connection = channel.connection
    session = await connection.session()
    channel.limit = limit
    held = sum(1 for one in channel.unacknowledged.values() if one.consumer is not None)
    left = limit - held if limit else None
    await connection.service.call(LimitChannel(session, channel.number, left), connection.caller)
    connection.write(method_frame(channel.number, methods.BASIC_QOS_OK))


async def consume(channel: Channel, arguments: Arguments, content: Content | None) -> None:
    """basic.consume"""
    _, name, tag, _, no_ack, exclusive, no_wait, table = arguments
    connection = channel.connection
    tag = tag or CONSUMER_TAG + connection.server.new_name()
    if name == REPLY_TO:
        await _consume_replies(channel, tag, no_ack, no_wait)
        return
    name = named(channel, name)
    if tag in channel.consumers or tag == channel.reply_tag:
        raise AmqpError(errors.NOT_ALLOWED, f"attempt to reuse consumer tag '{tag}'", methods.BASIC_CONSUME)
    view = await found(channel, name)
    fields = decode_table(table)[0]
    priority = fields.get("x-priority", 0)
    if isinstance(priority, bool) or not isinstance(priority, int) or abs(priority) > PRIORITY_MAX:
        raise precondition(f"invalid arg 'x-priority' for {queue_text(name, connection.host)}: it is no 32-bit integer")
    session = await connection.session()
    queue = hall_name(connection.host, name)
    consumer = ChannelConsumer(tag, connection.new_key(), queue, name, no_ack, channel.prefetch)
    consumer.counts = is_quorum(view.settings)
    consumer.positions = _wants_positions(fields, queue_text(name, connection.host))
    consumer.asked = (exclusive, priority)
    if is_stream(view.settings):
        consumer.stream = _stream_start(channel, name, no_ack, fields)
    elif OFFSET in fields:
        raise precondition(f"invalid arg '{OFFSET}' for {queue_text(name, connection.host)}: it is no stream")
    channel.consumers[tag] = consumer
    connection.consumers[consumer.key] = (channel, consumer)
    try:
        await connection.service.call(consumer.operation(session, channel.number), connection.caller)
    except LonghallError as error:
        channel.consumers.pop(tag, None)
        connection.consumers.pop(consumer.key, None)
        resource = queue_text(name, connection.host)
        if error.code is Code.QUEUE_IN_USE:
            raise AmqpError(errors.ACCESS_REFUSED, f"{resource} in exclusive use") from None
        if error.code is Code.UNKNOWN_QUEUE:
            raise AmqpError(errors.NOT_FOUND, f"no {resource}") from None
        raise
    if not no_wait:
        connection.write(method_frame(channel.number, methods.BASIC_CONSUME_OK, tag))
    early, consumer.early = consumer.early or [], None
    for push in early:
        connection.push(push)


def _wants_positions(fields: dict[str, Any], resource: str) -> bool:
    wants = fields.get(POSITIONS, False)
    if not isinstance(wants, bool):
        raise precondition(f"invalid arg '{POSITIONS}' for {resource}: it must be true or false")
    return wants


def _stream_start(channel: Channel, name: str, no_ack: bool, fields: dict[str, Any]) -> StreamStart:
    resource = queue_text(name, channel.connection.host)
    if no_ack:
        raise AmqpError(errors.NOT_IMPLEMENTED, f"automatic acknowledgement not supported by stream {resource}")
    if not channel.prefetch:
        raise precondition(f"consumer prefetch count is not set for stream {resource}")
    return start_of(fields, resource, channel.connection.server.now_ms())


async def _consume_replies(channel: Channel, tag: str, no_ack: bool, no_wait: bool) -> None:
    if not no_ack:
        raise precondition("reply consumer cannot acknowledge")
    if channel.reply_tag:
        raise precondition("reply consumer already set")
    await channel.connection.session()
    channel.reply_tag = tag
    if not no_wait:
        channel.connection.write(method_frame(channel.number, methods.BASIC_CONSUME_OK, tag))


async def cancel(channel: Channel, arguments: Arguments, content: Content | None) -> None:
    """basic.cancel"""
    tag, no_wait = arguments
    connection = channel.connection
    consumer = channel.consumers.get(tag)
    if tag == channel.reply_tag:
        channel.reply_tag = ""
    if consumer is not None:
        await connection.service.call(CancelConsumer(connection.session_id, consumer.key), connection.caller)
        channel.consumers.pop(tag, None)
        connection.consumers.pop(consumer.key, None)
    if not no_wait:
        connection.write(method_frame(channel.number, methods.BASIC_CANCEL_OK, tag))


def cancel_ok(channel: Channel, arguments: Arguments, content: Content | None) -> None:
    """basic.cancel_ok, the answer to a cancel of ours."""


async def get(channel: Channel, arguments: Arguments, content: Content | None) -> None:
    """basic.get"""
    _, name, no_ack = arguments
    connection = channel.connection
    name = named(channel, name)
    view = await found_unless_stream(channel, name, "basic.get")
    session = await connection.session()
    await connection.publisher.done()
    await connection.acknowledgements.returned()
    queue = hall_name(connection.host, name)
    await connection.pace.may_receive()
    try:
        taken = await connection.service.call(TakeMessage(queue, session, no_ack), connection.caller)
    except LonghallError as error:
        if error.code is not Code.UNKNOWN_QUEUE:
            raise
        raise AmqpError(errors.NOT_FOUND, f"no {queue_text(name, connection.host)}") from None
    delivery = taken.delivery
    if delivery is None:
        connection.server.statistics.counts.got_empty += 1
        connection.write(method_frame(channel.number, methods.BASIC_GET_EMPTY, ""))
        return
    connection.server.statistics.got(delivery.attempts > 1, no_ack)
    channel.delivery_number += 1
    if not no_ack:
        channel.unacknowledged[channel.delivery_number] = Unacknowledged(
            channel.delivery_number, queue, delivery.receipt, None
        )
    if connection.pace.limits.active:
        connection.pace.charge(connection.caller, RECEIVE, queue, size_bytes=len(delivery.body), messages=1)
    frame_max = connection.handshake.frame_max
    counts = is_quorum(view.settings)
    connection.write(get_frames(channel.number, channel.delivery_number, delivery, name, counts, taken.left, frame_max))


# The end of deliveries


def ack(channel: Channel, arguments: Arguments, content: Content | None) -> None:
    """basic.ack"""
    number, multiple = arguments
    _end(channel, number, multiple, SETTLE)


def nack(channel: Channel, arguments: Arguments, content: Content | None) -> None:
    """basic.nack"""
    number, multiple, requeue = arguments
    _end(channel, number, multiple, REQUEUE if requeue else REJECT)


def reject(channel: Channel, arguments: Arguments, content: Content | None) -> None:
    """basic.reject"""
    number, requeue = arguments
    _end(channel, number, False, REQUEUE if requeue else REJECT)


def _end(channel: Channel, number: int, multiple: bool, how: int) -> None:
    ended = channel.ended(number, multiple)
    if ended is None:
        raise precondition(f"unknown delivery tag {number}")
    if how == SETTLE:
        channel.connection.server.statistics.counts.acknowledged += len(ended)
    if channel.is_transactional:
        channel.transaction_ends.append((how, ended))
    else:
        channel.connection.acknowledgements.end(ended, how, channel.limited)


async def recover(channel: Channel, arguments: Arguments, content: Content | None) -> None:
    """basic.recover"""
    recover_async(channel, arguments, content)
    await channel.connection.acknowledgements.returned()
    channel.connection.write(method_frame(channel.number, methods.BASIC_RECOVER_OK))


def recover_async(channel: Channel, arguments: Arguments, content: Content | None) -> None:
    """basic.recover_async"""
    if not arguments[0]:
        raise AmqpError(errors.NOT_IMPLEMENTED, "requeue=false")
    ended = channel.ended(0, True) or []
    channel.connection.acknowledgements.end(ended, REQUEUE, channel.limited)
    channel.connection.acknowledgements.flush()

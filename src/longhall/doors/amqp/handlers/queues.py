"""Queue methods: declare, bind, unbind, purge and delete."""

from __future__ import annotations

from typing import Final

from longhall.doors.amqp import errors
from longhall.doors.amqp.channel import Channel, Content
from longhall.doors.amqp.declarations import CLASSIC, TYPE, check_owner, is_quorum, without_nothing
from longhall.doors.amqp.errors import AmqpError, precondition, queue_text
from longhall.doors.amqp.queue_creation import bind_queue, declare_queue, found_queue, use_queue
from longhall.doors.amqp.streams import is_stream
from longhall.doors.amqp.wire import methods
from longhall.doors.amqp.wire.frames import method_frame
from longhall.doors.amqp.wire.methods import Arguments
from longhall.errors import Code, LonghallError
from longhall.exchanges.field_table import decode_table
from longhall.exchanges.header_match import MATCH, MATCHES
from longhall.exchanges.names import hall_name
from longhall.queues.messages import QueueView
from longhall.queues.settings import QueueSettings
from longhall.service.exchange_operations import (
    BindingView,
    ClearQueue,
    RemoveQueue,
    UnbindExchange,
)

RESERVED: Final = "amq."
REPLY_TO: Final = "amq.rabbitmq.reply-to"
GENERATED: Final = "amq.gen-"


def clean(name: str) -> str:
    """A name without line ends, as RabbitMQ takes it."""
    return name.replace("\r", "").replace("\n", "")


def named(channel: Channel, name: str) -> str:
    """The queue of a method: empty means the last one that the channel declared."""
    name = clean(name)
    if name:
        return name
    if not channel.queue:
        raise AmqpError(errors.NOT_FOUND, "no previously declared queue")
    return channel.queue


async def found(channel: Channel, name: str) -> QueueView:
    """The queue of this name, if this connection may use it. 404 or 405."""
    return await found_queue(channel.connection, name)


async def found_unless_stream(channel: Channel, name: str, method: str) -> QueueView:
    """The queue of this name. 404, 405, or 540 for a stream, which does not have this method."""
    view = await found(channel, name)
    if is_stream(view.settings):
        resource = queue_text(name, channel.connection.host)
        raise AmqpError(errors.NOT_IMPLEMENTED, f"{method} not supported by stream queues {resource}")
    return view


async def declare(channel: Channel, arguments: Arguments, content: Content | None) -> None:
    """queue.declare"""
    _, name, passive, durable, exclusive, auto_delete, no_wait, table = arguments
    name = clean(name)
    connection = channel.connection
    if name.startswith(REPLY_TO):
        await _declare_reply(channel, name)
        return
    if passive:
        name = named(channel, name)
        await found(channel, name)
        await connection.publisher.done()
        await connection.acknowledgements.returned()
        use = await use_queue(connection, name)
    else:
        if not name:
            if decode_table(table)[0].get(TYPE, CLASSIC) != CLASSIC:
                raise precondition(f"invalid property 'server-named' for {queue_text(name, connection.host)}")
            name = GENERATED + connection.server.new_name()
        elif name.startswith(RESERVED) and connection.service.view(hall_name(connection.host, name)) is None:
            raise AmqpError(errors.ACCESS_REFUSED, f"queue name '{name}' contains reserved prefix 'amq.*'")
        await connection.publisher.done()
        owner = await connection.session() if exclusive else ""
        is_new = connection.service.view(hall_name(connection.host, name)) is None
        use = await declare_queue(connection, name, durable, auto_delete, owner, table)
        connection.server.statistics.counts.queues_created += is_new
    if use is None:
        raise AmqpError(errors.NOT_FOUND, f"no {queue_text(name, connection.host)}")
    channel.queue = name
    connection.server.statistics.counts.queues_declared += 1
    if not no_wait:
        connection.write(
            method_frame(channel.number, methods.QUEUE_DECLARE_OK, name, use.ready & 0xFFFFFFFF, use.consumers)
        )


async def _declare_reply(channel: Channel, name: str) -> None:
    connection = channel.connection
    session, _, number = name[len(REPLY_TO) + 1 :].partition(".")
    known: str | bool = name == REPLY_TO  # For every channel, as in RabbitMQ.
    if session == connection.session_id and number.isdecimal():
        target = connection.channels.get(int(number))
        known = target.reply_tag if target is not None else ""
    elif session:
        known = session if len(session) == len(connection.session_id) else ""
    if not known:
        raise AmqpError(errors.NOT_FOUND, f"no {queue_text(name, connection.host)}")
    connection.write(method_frame(channel.number, methods.QUEUE_DECLARE_OK, name, 0, 1))


async def bind(channel: Channel, arguments: Arguments, content: Content | None) -> None:
    """queue.bind"""
    _, name, exchange, key, no_wait, table = arguments
    await _bind(channel, name, clean(exchange), key, table)
    if not no_wait:
        channel.connection.write(method_frame(channel.number, methods.QUEUE_BIND_OK))


async def _bind(channel: Channel, name: str, exchange: str, key: str, table: bytes) -> None:
    connection = channel.connection
    name, key = _binding_names(channel, name, key)
    await found(channel, name)
    _refuse_default(exchange)
    check_match(table)
    await bind_queue(connection, name, exchange, key, without_nothing(table))


async def unbind(channel: Channel, arguments: Arguments, content: Content | None) -> None:
    """queue.unbind"""
    _, name, exchange, key, table = arguments
    connection = channel.connection
    name, key = _binding_names(channel, name, key)
    exchange = clean(exchange)
    _refuse_default(exchange)
    queue = hall_name(connection.host, name)
    view = connection.service.view(queue)
    if view is not None:
        check_owner(view.settings, connection.session_id, name, connection.host)
    binding = BindingView(connection.host, exchange, False, queue, key, without_nothing(table))
    await connection.service.call(UnbindExchange(binding), connection.caller)
    connection.write(method_frame(channel.number, methods.QUEUE_UNBIND_OK))


def _binding_names(channel: Channel, name: str, key: str) -> tuple[str, str]:
    """Queue and key of a binding: without both, the key is the name of the last declared queue."""
    if not clean(name) and not key:
        return named(channel, name), channel.queue
    return named(channel, name), key


def _refuse_default(exchange: str) -> None:
    if not exchange:
        raise AmqpError(errors.ACCESS_REFUSED, "operation not permitted on the default exchange")


def check_match(table: bytes) -> None:
    """Raises 406 for an argument x-match that is none."""

    match = decode_table(table)[0].get(MATCH)
    if match is not None and match not in MATCHES:
        raise precondition(f"Invalid x-match field value '{match}'; expected one of {', '.join(MATCHES)}")


async def purge(channel: Channel, arguments: Arguments, content: Content | None) -> None:
    """queue.purge"""
    _, name, no_wait = arguments
    connection = channel.connection
    name = named(channel, name)
    await found_unless_stream(channel, name, "queue.purge")
    await connection.publisher.done()
    await connection.acknowledgements.returned()
    count = await connection.service.call(ClearQueue(hall_name(connection.host, name)), connection.caller)
    if not no_wait:
        connection.write(method_frame(channel.number, methods.QUEUE_PURGE_OK, count & 0xFFFFFFFF))


def _check_deletable(settings: QueueSettings, if_unused: bool, if_empty: bool, resource: str) -> None:
    """Raises 540 for conditions that quorum queues and streams do not have."""
    kind = "stream" if is_stream(settings) else "quorum" if is_quorum(settings) else ""
    flag = "if-unused" if if_unused else "if-empty" if if_empty else ""
    if kind and flag:
        text = (
            f"cannot delete {resource}. queue.delete operations with {flag} flag set are not supported by {kind} queues"
        )
        raise AmqpError(errors.NOT_IMPLEMENTED, text)


async def delete(channel: Channel, arguments: Arguments, content: Content | None) -> None:
    """queue.delete"""
    _, name, if_unused, if_empty, no_wait = arguments
    connection = channel.connection
    name = named(channel, name)
    queue = hall_name(connection.host, name)
    resource = queue_text(name, connection.host)
    count = 0
    try:
        view = await connection.service.find(queue, connection.caller)
        check_owner(view.settings, connection.session_id, name, connection.host)
        _check_deletable(view.settings, if_unused, if_empty, resource)
        await connection.publisher.done()
        await connection.acknowledgements.returned()
        count = await connection.service.call(RemoveQueue(queue, if_unused, if_empty), connection.caller)
        connection.server.statistics.counts.queues_deleted += 1
    except LonghallError as error:
        if error.code is Code.QUEUE_IN_USE:
            raise precondition(f"{resource} in use") from None
        if error.code is Code.QUEUE_NOT_EMPTY:
            raise precondition(f"{resource} not empty") from None
        if error.code is not Code.UNKNOWN_QUEUE:
            raise
    connection.owned.pop(queue, None)
    if not no_wait:
        connection.write(method_frame(channel.number, methods.QUEUE_DELETE_OK, count & 0xFFFFFFFF))

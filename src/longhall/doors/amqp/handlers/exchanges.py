"""Exchange methods: declare, delete, bind and unbind."""

from __future__ import annotations

from longhall.doors.amqp.channel import Channel, Content
from longhall.doors.amqp.declarations import without_nothing
from longhall.doors.amqp.errors import exchange_text, precondition
from longhall.doors.amqp.exchange_declarations import (
    declare_exchange,
    describe_exchange,
    refuse_default,
    refuse_reserved,
)
from longhall.doors.amqp.handlers.queues import check_match, clean
from longhall.doors.amqp.wire import methods
from longhall.doors.amqp.wire.frames import method_frame
from longhall.doors.amqp.wire.methods import Arguments
from longhall.errors import Code, LonghallError
from longhall.service.exchange_operations import (
    BindExchange,
    BindingView,
    DeleteExchange,
    ExchangeView,
    UnbindExchange,
)


async def declare(channel: Channel, arguments: Arguments, content: Content | None) -> None:
    """exchange.declare"""
    _, name, kind, passive, durable, auto_delete, internal, no_wait, table = arguments
    name = clean(name)
    connection = channel.connection
    if passive:
        refuse_default(name)
        await describe_exchange(connection.service, connection.caller, connection.host, name)
    else:
        wanted = ExchangeView(connection.host, name, kind, durable, auto_delete, internal, table)
        await declare_exchange(connection.service, connection.caller, wanted)
    if not no_wait:
        channel.connection.write(method_frame(channel.number, methods.EXCHANGE_DECLARE_OK))


async def delete(channel: Channel, arguments: Arguments, content: Content | None) -> None:
    """exchange.delete"""
    _, name, if_unused, no_wait = arguments
    name = clean(name)
    connection = channel.connection
    refuse_reserved(name, connection.host)
    try:
        await connection.service.call(DeleteExchange(connection.host, name, if_unused), connection.caller)
    except LonghallError as error:
        if error.code is not Code.EXCHANGE_IN_USE:
            raise
        raise precondition(f"{exchange_text(name, connection.host)} in use") from None
    if not no_wait:
        connection.write(method_frame(channel.number, methods.EXCHANGE_DELETE_OK))


async def bind(channel: Channel, arguments: Arguments, content: Content | None) -> None:
    """exchange.bind"""
    no_wait = arguments[4]
    connection = channel.connection
    binding = _binding(channel, arguments)
    try:
        await connection.service.call(BindExchange(binding), connection.caller)
    except LonghallError as error:
        if error.code is not Code.UNKNOWN_EXCHANGE:
            raise
        for name in (binding.source, binding.destination):
            await describe_exchange(connection.service, connection.caller, connection.host, name)
        raise
    if not no_wait:
        connection.write(method_frame(channel.number, methods.EXCHANGE_BIND_OK))


async def unbind(channel: Channel, arguments: Arguments, content: Content | None) -> None:
    """exchange.unbind"""
    no_wait = arguments[4]
    connection = channel.connection
    await connection.service.call(UnbindExchange(_binding(channel, arguments)), connection.caller)
    if not no_wait:
        connection.write(method_frame(channel.number, methods.EXCHANGE_UNBIND_OK))


def _binding(channel: Channel, arguments: Arguments) -> BindingView:
    _, destination, source, key, _, table = arguments
    destination, source = clean(destination), clean(source)
    refuse_default(destination)
    refuse_default(source)
    check_match(table)
    return BindingView(channel.connection.host, source, True, destination, key, without_nothing(table))

"""Exchange methods: declare, delete, bind and unbind."""

from __future__ import annotations

from typing import Final

from longhall.doors.amqp import errors
from longhall.doors.amqp.channel import Channel, Content
from longhall.doors.amqp.declarations import without_nothing
from longhall.doors.amqp.errors import AmqpError, exchange_text, precondition
from longhall.doors.amqp.handlers.queues import RESERVED, check_match, clean
from longhall.doors.amqp.wire import methods
from longhall.doors.amqp.wire.frames import method_frame
from longhall.doors.amqp.wire.methods import Arguments
from longhall.errors import Code, LonghallError
from longhall.exchanges.exchange import ALTERNATE, DELAYED, DELAYED_TYPE, KINDS
from longhall.exchanges.field_table import decode_table
from longhall.service.exchange_operations import (
    BindExchange,
    BindingView,
    DeclareExchange,
    DeleteExchange,
    DescribeExchange,
    ExchangeView,
    UnbindExchange,
)

_FLAGS: Final = ("durable", "auto_delete", "internal")


async def declare(channel: Channel, arguments: Arguments, content: Content | None) -> None:
    """exchange.declare"""
    _, name, kind, passive, durable, auto_delete, internal, no_wait, table = arguments
    name = clean(name)
    if passive:
        if name:
            await _describe(channel, name)
    else:
        _refuse_default(name)
        await _declare(channel, name, kind, (durable, auto_delete, internal), table)
    if not no_wait:
        channel.connection.write(method_frame(channel.number, methods.EXCHANGE_DECLARE_OK))


async def _describe(channel: Channel, name: str) -> ExchangeView:
    connection = channel.connection
    try:
        return await connection.service.call(DescribeExchange(connection.host, name), connection.caller)
    except LonghallError as error:
        if error.code is not Code.UNKNOWN_EXCHANGE:
            raise
        raise AmqpError(errors.NOT_FOUND, f"no {exchange_text(name, connection.host)}") from None


async def _declare(channel: Channel, name: str, kind: str, flags: tuple[bool, bool, bool], table: bytes) -> None:
    connection = channel.connection
    resource = exchange_text(name, connection.host)
    fields = decode_table(table)[0]
    if kind not in (*KINDS, DELAYED):
        raise precondition(f"unknown exchange type '{kind}'")
    if kind == DELAYED and fields.get(DELAYED_TYPE) not in KINDS:
        raise precondition(f"invalid arg '{DELAYED_TYPE}' for {resource}: it must be one of {', '.join(KINDS)}")
    if not isinstance(fields.get(ALTERNATE, ""), str):
        raise precondition(f"invalid arg '{ALTERNATE}' for {resource}: it is no string")
    if name.startswith(RESERVED):
        try:
            await _describe(channel, name)
        except AmqpError:
            text = f"exchange name '{name}' contains reserved prefix 'amq.*'"
            raise AmqpError(errors.ACCESS_REFUSED, text) from None
    wanted = ExchangeView(connection.host, name, kind, *flags, without_nothing(table))
    known = await connection.service.call(DeclareExchange(wanted), connection.caller)
    if known.kind != kind:
        raise _inequivalent("type", resource, kind, known.kind)
    for flag in _FLAGS:
        given, current = getattr(wanted, flag), getattr(known, flag)
        if given != current:
            raise _inequivalent(flag, resource, str(given).lower(), str(current).lower())
    current_fields = decode_table(known.arguments)[0] if known.arguments else {}
    given_alternate, current_alternate = fields.get(ALTERNATE), current_fields.get(ALTERNATE)
    if given_alternate != current_alternate:
        raise precondition(
            f"inequivalent arg '{ALTERNATE}' for {resource}: received {_described(given_alternate)} but current is "
            f"{_described(current_alternate)}"
        )


def _described(value: str | None) -> str:
    return "none" if value is None else f"the value '{value}' of type 'longstr'"


def _inequivalent(key: str, resource: str, given: str, known: str) -> AmqpError:
    return precondition(f"inequivalent arg '{key}' for {resource}: received '{given}' but current is '{known}'")


def _refuse_default(name: str) -> None:
    if not name:
        raise AmqpError(errors.ACCESS_REFUSED, "operation not permitted on the default exchange")


async def delete(channel: Channel, arguments: Arguments, content: Content | None) -> None:
    """exchange.delete"""
    _, name, if_unused, no_wait = arguments
    name = clean(name)
    connection = channel.connection
    _refuse_default(name)
    if name.startswith(RESERVED):
        text = f"deletion of system {exchange_text(name, connection.host)} not allowed"
        raise AmqpError(errors.ACCESS_REFUSED, text)
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
            await _describe(channel, name)
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
    _refuse_default(destination)
    _refuse_default(source)
    check_match(table)
    return BindingView(channel.connection.host, source, True, destination, key, without_nothing(table))

"""The login of a connection, its virtual host, and a new secret of its user: all may wait for an answer."""

from __future__ import annotations

from typing import TYPE_CHECKING

from longhall.doors.amqp import errors
from longhall.doors.amqp.errors import AmqpError
from longhall.doors.amqp.virtual_host import refusal_of_host
from longhall.doors.amqp.wire import methods
from longhall.doors.amqp.wire.frames import method_frame
from longhall.doors.amqp.wire.methods import Arguments
from longhall.exchanges.field_table import MalformedTable

if TYPE_CHECKING:
    from longhall.doors.amqp.connection import AmqpConnection


async def log_in(connection: AmqpConnection, arguments: Arguments) -> None:
    """connection.start_ok: the client shows who it is. Frames that come before the answer wait for it."""
    handshake = connection.handshake
    try:
        await handshake.prepare(arguments)
        handshake.state = "start"
        if not connection.is_closing:
            connection.write(handshake.take(methods.CONNECTION_START_OK, arguments))
    except AmqpError as error:
        handshake.state = "start"
        connection.refuse(error)
    except MalformedTable as error:
        connection.refuse(AmqpError(errors.SYNTAX_ERROR, str(error)))
    connection.data_received(b"")


async def open_host(connection: AmqpConnection, host: str) -> None:
    """connection.open: the virtual host that the client works in. Frames that come before the answer wait for it."""
    handshake = connection.handshake
    caller = handshake.caller(connection.peer, connection.origin.is_tls)
    try:
        refusal = await refusal_of_host(connection.service, host, handshake.user, caller)
    finally:
        handshake.state = "open"
    if refusal:
        connection.refuse(AmqpError(errors.NOT_ALLOWED, refusal, methods.CONNECTION_OPEN))
    elif not connection.is_closing:
        connection.opened(host, caller)
    connection.data_received(b"")


async def update_secret(connection: AmqpConnection, secret: bytes) -> None:
    """connection.update_secret: a new secret of the same user."""
    try:
        await connection.handshake.prepare_update(secret)
        if not connection.handshake.update(secret):
            raise AmqpError(errors.NOT_ALLOWED, "the new secret is not accepted", methods.CONNECTION_UPDATE_SECRET)
        connection.write(method_frame(0, methods.CONNECTION_UPDATE_SECRET_OK))
    except AmqpError as error:
        connection.refuse(error)

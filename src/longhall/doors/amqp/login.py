"""The login of a connection, and a new secret of its user: both may wait for the hash of a password."""

from __future__ import annotations

from typing import TYPE_CHECKING

from longhall.doors.amqp import errors
from longhall.doors.amqp.errors import AmqpError
from longhall.doors.amqp.wire import methods
from longhall.doors.amqp.wire.frames import method_frame
from longhall.doors.amqp.wire.methods import Arguments
from longhall.exchanges.field_table import MalformedTable

if TYPE_CHECKING:
    from longhall.doors.amqp.connection import AmqpConnection


async def log_in(connection: AmqpConnection, arguments: Arguments) -> None:
    """connection.start_ok: the client shows who it is. Another frame before the answer is an error."""
    handshake = connection.handshake
    handshake.state = "login"
    try:
        await handshake.prepare(arguments)
        handshake.state = "start"
        connection.write(handshake.take(methods.CONNECTION_START_OK, arguments))
    except AmqpError as error:
        connection.refuse(error)
    except MalformedTable as error:
        connection.refuse(AmqpError(errors.SYNTAX_ERROR, str(error)))


async def update_secret(connection: AmqpConnection, secret: bytes) -> None:
    """connection.update_secret: a new secret of the same user."""
    try:
        await connection.handshake.prepare_update(secret)
        if not connection.handshake.update(secret):
            raise AmqpError(errors.NOT_ALLOWED, "the new secret is not accepted", methods.CONNECTION_UPDATE_SECRET)
        connection.write(method_frame(0, methods.CONNECTION_UPDATE_SECRET_OK))
    except AmqpError as error:
        connection.refuse(error)

"""Consumers that a user may not have any more: its permissions have changed while messages were pushed to it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from longhall.doors.amqp import errors
from longhall.doors.amqp.wire import methods
from longhall.errors import LonghallError

if TYPE_CHECKING:
    from longhall.doors.amqp.connection import AmqpConnection


def close_revoked(connection: AmqpConnection) -> None:
    """Close the channels of a connection that have such a consumer."""
    if not connection.service.is_guarded:
        return
    for channel, consumer in list(connection.consumers.values()):
        try:
            connection.service.check(consumer.operation(connection.session_id, channel.number), connection.caller)
        except LonghallError as error:
            connection.fail(channel, errors.error_of(error), methods.BASIC_CONSUME)

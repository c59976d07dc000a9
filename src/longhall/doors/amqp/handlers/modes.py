"""The modes of a channel: flow, confirms and transactions; and its end."""

from __future__ import annotations

from longhall.doors.amqp import errors
from longhall.doors.amqp.acknowledgements import ended_messages
from longhall.doors.amqp.channel import Channel, Content
from longhall.doors.amqp.errors import AmqpError, precondition
from longhall.doors.amqp.wire import methods
from longhall.doors.amqp.wire.frames import method_frame
from longhall.doors.amqp.wire.methods import Arguments
from longhall.service.exchange_operations import DONE


def flow(channel: Channel, arguments: Arguments, content: Content | None) -> None:
    """channel.flow"""
    if not arguments[0]:
        raise AmqpError(errors.NOT_IMPLEMENTED, "active=false")
    channel.connection.write(method_frame(channel.number, methods.CHANNEL_FLOW_OK, True))


def flow_ok(channel: Channel, arguments: Arguments, content: Content | None) -> None:
    """channel.flow_ok"""


async def close(channel: Channel, arguments: Arguments, content: Content | None) -> None:
    """channel.close"""
    connection = channel.connection
    await connection.leave(channel)
    connection.channels.pop(channel.number, None)
    connection.write(method_frame(channel.number, methods.CHANNEL_CLOSE_OK))


def close_ok(channel: Channel, arguments: Arguments, content: Content | None) -> None:
    """channel.close_ok of a channel that the server did not close."""


def access_request(channel: Channel, arguments: Arguments, content: Content | None) -> None:
    """access.request: old clients ask for a ticket."""
    channel.connection.write(method_frame(channel.number, methods.ACCESS_REQUEST_OK, 1))


def confirm_select(channel: Channel, arguments: Arguments, content: Content | None) -> None:
    """confirm.select"""
    if channel.is_transactional:
        raise precondition("cannot switch from tx to confirm mode")
    channel.confirms = True
    if not arguments[0]:
        channel.connection.write(method_frame(channel.number, methods.CONFIRM_SELECT_OK))


def tx_select(channel: Channel, arguments: Arguments, content: Content | None) -> None:
    """tx.select"""
    if channel.confirms:
        raise precondition("cannot switch from confirm to tx mode")
    channel.is_transactional = True
    channel.connection.write(method_frame(channel.number, methods.TX_SELECT_OK))


async def tx_commit(channel: Channel, arguments: Arguments, content: Content | None) -> None:
    """tx.commit: what was published is appended and what was ended is ended, in one atomic write."""
    _check_transactional(channel)
    connection = channel.connection
    published, channel.transaction = channel.transaction, []
    channel.transaction_bytes = 0
    ends, channel.transaction_ends = channel.transaction_ends, []
    try:
        await connection.publisher.commit(channel, published, ended_messages(ends))
    except BaseException:
        channel.transaction_ends = ends  # They go back with what the channel holds.
        raise
    for _, ended in ends:
        connection.acknowledgements.end(ended, DONE, channel.limited)
    await connection.acknowledgements.ended()
    connection.write(method_frame(channel.number, methods.TX_COMMIT_OK))


def tx_rollback(channel: Channel, arguments: Arguments, content: Content | None) -> None:
    """tx.rollback: what was ended in the transaction is not; it can be ended again."""
    _check_transactional(channel)
    channel.transaction.clear()
    channel.transaction_bytes = 0
    for _, ended in channel.transaction_ends:
        for one in ended:
            channel.unacknowledged[one.number] = one
    channel.transaction_ends.clear()
    channel.unacknowledged = dict(sorted(channel.unacknowledged.items()))
    channel.connection.write(method_frame(channel.number, methods.TX_ROLLBACK_OK))


def _check_transactional(channel: Channel) -> None:
    if not channel.is_transactional:
        raise precondition("channel is not transactional")

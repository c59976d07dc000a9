"""Queues of a connection with AMQP's model: found, or created as they are declared.

A node that does not lead may not know yet what has become of a queue, so what does not fit is confirmed by the leader
before it is refused. An exclusive queue whose connection went down with a node is about to end: a client that connects
again and declares it waits for that, instead of being refused.
"""

from __future__ import annotations

import asyncio
from typing import Final, Protocol

from longhall.cluster.rpc.operation import Caller
from longhall.doors.amqp import errors
from longhall.doors.amqp.declarations import check_equivalent, check_owner, settings_of
from longhall.doors.amqp.errors import AmqpError, exchange_text, precondition, queue_text
from longhall.errors import Code, LonghallError
from longhall.exchanges.names import hall_name
from longhall.queues.messages import QueueView
from longhall.queues.settings import AmqpSettings, QueueSettings
from longhall.service.exchange_operations import BindExchange, BindingView, QueueUse, UseQueue
from longhall.service.queue_operations import CreateQueue, DescribeQueue
from longhall.service.router import Router

OWNER_S_MAX: Final = 40.0  # How long a declaration waits for the end of a queue whose connection is gone.
_ATTEMPTS: Final = 3  # Of a declaration while others create and delete the same queue.
_LOOK_S: Final = 0.1


class DeclaringConnection(Protocol):
    """The connection that declares. `owned` are its exclusive queues."""

    host: str
    service: Router
    caller: Caller
    owned: dict[str, None]

    @property
    def session_id(self) -> str: ...


async def found_queue(connection: DeclaringConnection, name: str) -> QueueView:
    """The queue of this name, if this connection may use it. 404 or 405."""
    try:
        view = await connection.service.find(hall_name(connection.host, name), connection.caller)
    except LonghallError as error:
        if error.code is Code.UNKNOWN_QUEUE:
            raise AmqpError(errors.NOT_FOUND, f"no {queue_text(name, connection.host)}") from None
        raise
    check_owner(view.settings, connection.session_id, name, connection.host)
    return view


async def declare_queue(
    connection: DeclaringConnection, name: str, durable: bool, auto_delete: bool, owner: str, table: bytes
) -> QueueUse | None:
    """Create a queue, or compare the declaration with the queue that exists, and use it. None if it is gone again."""
    settings = settings_of(connection.host, name, durable, auto_delete, owner, table)
    connection.service.check(CreateQueue(hall_name(connection.host, name), settings), connection.caller)
    await _create(connection, name, settings)
    use = await use_queue(connection, name)
    if use is None:  # It was deleted, and this node has not heard of it yet.
        await _created(connection, hall_name(connection.host, name), settings)
        use = await use_queue(connection, name)
    return use


async def use_queue(connection: DeclaringConnection, name: str) -> QueueUse | None:
    """Use a queue; None if the leader does not know it."""
    try:
        return await connection.service.call(UseQueue(hall_name(connection.host, name)), connection.caller)
    except LonghallError as error:
        if error.code is not Code.UNKNOWN_QUEUE:
            raise
        return None


async def _create(connection: DeclaringConnection, name: str, settings: QueueSettings) -> None:
    assert settings.amqp is not None
    queue = hall_name(connection.host, name)
    for _ in range(_ATTEMPTS):
        view = connection.service.view(queue)
        if view is None:
            if await _created(connection, queue, settings):
                return
            view = await _described(connection, queue)
        elif not _is_equivalent(connection, view, settings.amqp):
            view = await _owned(connection, queue)  # This node may not know yet what has become of the queue.
            if view is None and await _created(connection, queue, settings):
                return
        if view is not None:
            check_equivalent(view.settings, settings.amqp, connection.session_id)
            return
    raise precondition(f"{queue_text(name, connection.host)} is a topic, or is created and deleted all the time")


def _is_equivalent(connection: DeclaringConnection, view: QueueView, wanted: AmqpSettings) -> bool:
    try:
        check_equivalent(view.settings, wanted, connection.session_id)
    except AmqpError:
        return False
    return True


async def _created(connection: DeclaringConnection, queue: str, settings: QueueSettings) -> bool:
    """Create a queue; False if the name is taken."""
    try:
        await connection.service.call(CreateQueue(queue, settings), connection.caller)
    except LonghallError as error:
        if error.code is not Code.QUEUE_EXISTS:
            raise
        return False
    if settings.amqp is not None and settings.amqp.owner:
        connection.owned[queue] = None
    return True


async def _described(connection: DeclaringConnection, queue: str) -> QueueView | None:
    try:
        return await connection.service.call(DescribeQueue(queue), connection.caller)
    except LonghallError as error:
        if error.code is not Code.UNKNOWN_QUEUE:
            raise
        return None


async def _owned(connection: DeclaringConnection, queue: str) -> QueueView | None:
    """The queue as its leader knows it, when its owner is there; None if it is gone."""
    deadline = asyncio.get_running_loop().time() + OWNER_S_MAX
    view = await _described(connection, queue)
    while view is not None and view.awaits_owner and asyncio.get_running_loop().time() < deadline:
        await asyncio.sleep(_LOOK_S)
        view = await _described(connection, queue)
    return view


async def bind_queue(connection: DeclaringConnection, name: str, exchange: str, key: str, arguments: bytes) -> None:
    """Bind a queue. 404 if it or the exchange does not exist."""
    host = connection.host
    binding = BindingView(host, exchange, False, hall_name(host, name), key, arguments)
    try:
        await connection.service.call(BindExchange(binding), connection.caller)
    except LonghallError as error:
        if error.code is Code.UNKNOWN_EXCHANGE:
            raise AmqpError(errors.NOT_FOUND, f"no {exchange_text(exchange, host)}") from None
        if error.code is Code.UNKNOWN_QUEUE:
            raise AmqpError(errors.NOT_FOUND, f"no {queue_text(name, host)}") from None
        raise

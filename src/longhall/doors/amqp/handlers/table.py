"""The handlers of all methods that clients send on channels."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any, Final

from longhall.doors.amqp.channel import Channel, Content
from longhall.doors.amqp.handlers import basic, exchanges, modes, queues
from longhall.doors.amqp.wire import methods
from longhall.doors.amqp.wire.methods import Arguments

Handler = Callable[[Channel, Arguments, Content | None], Coroutine[Any, Any, None] | None]

HANDLERS: Final[dict[int, Handler]] = {
    methods.CHANNEL_FLOW: modes.flow,
    methods.CHANNEL_FLOW_OK: modes.flow_ok,
    methods.CHANNEL_CLOSE: modes.close,
    methods.CHANNEL_CLOSE_OK: modes.close_ok,
    methods.ACCESS_REQUEST: modes.access_request,
    methods.EXCHANGE_DECLARE: exchanges.declare,
    methods.EXCHANGE_DELETE: exchanges.delete,
    methods.EXCHANGE_BIND: exchanges.bind,
    methods.EXCHANGE_UNBIND: exchanges.unbind,
    methods.QUEUE_DECLARE: queues.declare,
    methods.QUEUE_BIND: queues.bind,
    methods.QUEUE_UNBIND: queues.unbind,
    methods.QUEUE_PURGE: queues.purge,
    methods.QUEUE_DELETE: queues.delete,
    methods.BASIC_PUBLISH: basic.publish,
    methods.BASIC_QOS: basic.qos,
    methods.BASIC_CONSUME: basic.consume,
    methods.BASIC_CANCEL: basic.cancel,
    methods.BASIC_CANCEL_OK: basic.cancel_ok,
    methods.BASIC_GET: basic.get,
    methods.BASIC_ACK: basic.ack,
    methods.BASIC_NACK: basic.nack,
    methods.BASIC_REJECT: basic.reject,
    methods.BASIC_RECOVER: basic.recover,
    methods.BASIC_RECOVER_ASYNC: basic.recover_async,
    methods.CONFIRM_SELECT: modes.confirm_select,
    methods.TX_SELECT: modes.tx_select,
    methods.TX_COMMIT: modes.tx_commit,
    methods.TX_ROLLBACK: modes.tx_rollback,
}

# What counts as management in rate limits.
MANAGING: Final = frozenset(
    {
        methods.EXCHANGE_DECLARE,
        methods.EXCHANGE_DELETE,
        methods.EXCHANGE_BIND,
        methods.EXCHANGE_UNBIND,
        methods.QUEUE_DECLARE,
        methods.QUEUE_BIND,
        methods.QUEUE_UNBIND,
        methods.QUEUE_PURGE,
        methods.QUEUE_DELETE,
    }
)

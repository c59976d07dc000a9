"""Queues, exchanges and bindings, declared over HTTP and from definitions files by the rules of the AMQP door."""

from __future__ import annotations

import hashlib
from base64 import urlsafe_b64encode
from typing import Any, Final
from urllib.parse import quote

from longhall.cluster.rpc.operation import Caller
from longhall.console.management.bodies import amqp_refusals, shown_value
from longhall.doors.amqp.declarations import check_equivalent, settings_of, without_nothing
from longhall.doors.amqp.exchange_declarations import declare_exchange, refuse_default
from longhall.doors.amqp.handlers.queues import RESERVED, check_match
from longhall.errors import Code, LonghallError
from longhall.exchanges.field_table import decode_table
from longhall.exchanges.names import hall_name, names_of
from longhall.service.exchange_operations import BindExchange, BindingView, DescribeExchange, ExchangeView
from longhall.service.queue_operations import CreateQueue, DescribeQueue
from longhall.service.router import Router

DEFAULT: Final = "amq.default"  # The default exchange in a path.
HASH_BYTES: Final = 9


async def put_queue(
    service: Router, caller: Caller, host: str, name: str, durable: bool, auto_delete: bool, arguments: bytes
) -> bool:
    """Declare a queue; False if the same queue exists. INVALID_REQUEST if it cannot be, or is another one."""
    queue = hall_name(host, name)
    with amqp_refusals():
        settings = settings_of(host, name, durable, auto_delete, "", arguments)
        assert settings.amqp is not None
        if name.startswith(RESERVED) and service.view(queue) is None:
            raise LonghallError(Code.INVALID_REQUEST, f"queue name '{name}' contains reserved prefix 'amq.*'")
        try:
            await service.call(CreateQueue(queue, settings), caller)
        except LonghallError as error:
            if error.code is not Code.QUEUE_EXISTS:
                raise
            view = await service.call(DescribeQueue(queue), caller)
            check_equivalent(view.settings, settings.amqp, "")
            return False
    return True


async def put_exchange(service: Router, caller: Caller, wanted: ExchangeView) -> bool:
    """Declare an exchange; False if the same exchange exists."""
    try:
        await service.call(DescribeExchange(wanted.host, wanted.name), caller)
        is_new = False
    except LonghallError as error:
        if error.code is not Code.UNKNOWN_EXCHANGE:
            raise
        is_new = True
    with amqp_refusals():
        await declare_exchange(service, caller, wanted)
    return is_new


def binding_of(host: str, source: str, to_exchange: bool, destination: str, key: str, arguments: bytes) -> BindingView:
    """A binding by the names that clients use."""
    with amqp_refusals():
        refuse_default(source)
        check_match(arguments)
        if to_exchange:
            refuse_default(destination)
        to = destination if to_exchange else hall_name(host, destination)
        return BindingView(host, source, to_exchange, to, key, without_nothing(arguments))


async def put_binding(service: Router, caller: Caller, binding: BindingView) -> None:
    """Bind a queue or an exchange; no effect if it is bound so."""
    await service.call(BindExchange(binding), caller)


def shown_binding(binding: BindingView) -> dict[str, Any]:
    """A binding as the management API has it."""
    to = binding.destination if binding.to_exchange else names_of(binding.destination)[1]
    return {
        "source": binding.source,
        "vhost": binding.host,
        "destination": to,
        "destination_type": "exchange" if binding.to_exchange else "queue",
        "routing_key": binding.key,
        "arguments": shown_table(binding.arguments),
        "properties_key": properties_key(binding),
    }


def properties_key(binding: BindingView) -> str:
    """What identifies a binding between its source and its destination: `~`, the key, or the key and a hash."""
    key = quote(binding.key, safe="").replace("~", "%7E")
    if not binding.arguments:
        return key or "~"
    digest = hashlib.sha256(binding.arguments).digest()[:HASH_BYTES]
    return f"{key}~{urlsafe_b64encode(digest).decode()}"


def shown_table(arguments: bytes) -> dict[str, Any]:
    """A field table as JSON has it."""
    return {name: shown_value(value) for name, value in decode_table(arguments)[0].items()} if arguments else {}


def exchange_named(name: str) -> str:
    """The name of an exchange in a path."""
    return "" if name == DEFAULT else name

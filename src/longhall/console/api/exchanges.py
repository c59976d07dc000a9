"""Exchanges and bindings over the HTTP API: list, create, delete, bind, and the route that a message would take.

They are declared by the rules of the AMQP door. The command line uses this; RabbitMQ's tools use the management API.
"""

from __future__ import annotations

from http import HTTPStatus
from typing import Any, Final

import msgspec

from longhall.console.api.asked import Asked, Reply
from longhall.console.api.service import Handler, Route
from longhall.console.management.bodies import amqp_refusals, table
from longhall.console.management.declarations import binding_of, put_binding, put_exchange, shown_binding, shown_table
from longhall.doors.amqp.exchange_declarations import refuse_reserved
from longhall.errors import Code, LonghallError
from longhall.exchanges.names import DEFAULT_HOST, names_of
from longhall.service.exchange_operations import (
    DeleteExchange,
    DescribeExchange,
    ExchangeView,
    FindRoute,
    ListBindings,
    ListExchanges,
    UnbindExchange,
)
from longhall.service.router import Router


class ExchangeShape(msgspec.Struct, forbid_unknown_fields=True):
    """An exchange of a virtual host."""

    name: str
    type: str = "direct"
    vhost: str = DEFAULT_HOST
    durable: bool = True
    auto_delete: bool = False
    internal: bool = False
    arguments: dict[str, Any] = {}


class BindingShape(msgspec.Struct, forbid_unknown_fields=True):
    """A binding from an exchange to a queue, or to another exchange."""

    source: str
    destination: str
    vhost: str = DEFAULT_HOST
    destination_type: str = "queue"
    routing_key: str = ""
    arguments: dict[str, Any] = {}


class RouteQuestion(msgspec.Struct, forbid_unknown_fields=True):
    """A message that is not sent."""

    routing_key: str = ""
    headers: dict[str, Any] = {}
    vhost: str = DEFAULT_HOST


class RouteReply(msgspec.Struct):
    """The queues that it would go to."""

    queues: list[str]


class HostQuery(msgspec.Struct, forbid_unknown_fields=True):
    """The virtual host of a list."""

    vhost: str = DEFAULT_HOST


async def list_exchanges(service: Router, asked: Asked) -> Reply:
    """GET exchanges"""
    host = asked.question(HostQuery).vhost
    return Reply([_shape(one) for one in await service.call(ListExchanges(host), asked.caller)])


async def create_exchange(service: Router, asked: Asked) -> Reply:
    """POST exchanges"""
    shape = asked.read(ExchangeShape)
    flags = (shape.durable, shape.auto_delete, shape.internal)
    arguments = table({"arguments": shape.arguments}, "arguments")
    is_new = await put_exchange(
        service, asked.caller, ExchangeView(shape.vhost, shape.name, shape.type, *flags, arguments)
    )
    return Reply(shape, HTTPStatus.CREATED if is_new else HTTPStatus.OK)


async def delete_exchange(service: Router, asked: Asked) -> Reply:
    """DELETE exchanges/NAME"""
    host = asked.question(HostQuery).vhost
    with amqp_refusals():
        refuse_reserved(asked.name, host)
    await service.call(DescribeExchange(host, asked.name), asked.caller)
    await service.call(DeleteExchange(host, asked.name), asked.caller)
    return Reply({})


async def find_route(service: Router, asked: Asked) -> Reply:
    """POST exchanges/NAME/route"""
    question = asked.read(RouteQuestion)
    headers = table({"headers": question.headers}, "headers")
    name = "" if asked.name == "amq.default" else asked.name
    operation = FindRoute(question.vhost, name, question.routing_key, headers)
    found = await service.call(operation, asked.caller)
    return Reply(RouteReply([names_of(queue)[1] for queue in found]))


async def list_bindings(service: Router, asked: Asked) -> Reply:
    """GET bindings"""
    host = asked.question(HostQuery).vhost
    rows = [shown_binding(one) for one in await service.call(ListBindings(host), asked.caller)]
    return Reply([{name: value for name, value in row.items() if name != "properties_key"} for row in rows])


async def bind(service: Router, asked: Asked) -> Reply:
    """POST bindings"""
    shape = asked.read(BindingShape)
    await put_binding(service, asked.caller, _binding(shape))
    return Reply(shape, HTTPStatus.CREATED)


async def unbind(service: Router, asked: Asked) -> Reply:
    """DELETE bindings"""
    binding = _binding(asked.read(BindingShape))
    if binding not in await service.call(ListBindings(binding.host), asked.caller):
        raise LonghallError(Code.UNKNOWN_EXCHANGE, f"'{binding.source}' has no such binding")
    await service.call(UnbindExchange(binding), asked.caller)
    return Reply({})


def _binding(shape: BindingShape) -> Any:
    if shape.destination_type not in ("queue", "exchange"):
        raise LonghallError(Code.INVALID_REQUEST, "destination_type is queue or exchange")
    arguments = table({"arguments": shape.arguments}, "arguments")
    to_exchange = shape.destination_type == "exchange"
    return binding_of(shape.vhost, shape.source, to_exchange, shape.destination, shape.routing_key, arguments)


def _shape(one: ExchangeView) -> ExchangeShape:
    flags = (one.durable, one.auto_delete, one.internal)
    return ExchangeShape(one.name, one.kind, one.host, *flags, shown_table(one.arguments))


EXCHANGE_ROUTES: Final = (
    Route("GET", "exchanges", list_exchanges),
    Route("POST", "exchanges", create_exchange),
    Route("DELETE", "exchanges/*", delete_exchange),
    Route("POST", "exchanges/*/route", find_route),
    Route("GET", "bindings", list_bindings),
    Route("POST", "bindings", bind),
    Route("DELETE", "bindings", unbind),
)


def definition_routes(export: Handler, take: Handler, export_host: Handler, take_host: Handler) -> tuple[Route, ...]:
    """The definitions of RabbitMQ's format, as the management API has them; an import always says what it ignored."""

    async def imported(service: Router, asked: Asked) -> Reply:
        reply = await (take_host if asked.names else take)(service, asked)
        return Reply(reply.value or {"ignored": {}, "reason": ""})

    return (
        Route("GET", "definitions", export),
        Route("GET", "definitions/*", export_host),
        Route("POST", "definitions", imported),
        Route("POST", "definitions/*", imported),
    )

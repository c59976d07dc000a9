"""Exchanges and bindings over the management API."""

from __future__ import annotations

from http import HTTPStatus
from typing import Final, final
from urllib.parse import quote, unquote

from longhall.cluster.rpc.operation import Caller
from longhall.console.api.asked import Asked, Reply
from longhall.console.management.bodies import amqp_refusals, body_of, flag, table, text
from longhall.console.management.declarations import (
    binding_of,
    exchange_named,
    properties_key,
    put_binding,
    put_exchange,
    shown_binding,
    shown_table,
)
from longhall.console.management.pages import Row, listed, shown
from longhall.console.management.queues import NO_CONTENT, check_host, queue_rows
from longhall.console.management.rates import Rates
from longhall.console.management.sources import ManagedNode, NodeReport
from longhall.doors.amqp.exchange_declarations import refuse_reserved
from longhall.errors import Code, LonghallError
from longhall.exchanges.names import hall_name
from longhall.service.exchange_operations import (
    BindingView,
    DeleteExchange,
    DescribeExchange,
    ExchangeView,
    ListBindings,
    ListExchanges,
    ListVirtualHosts,
    UnbindExchange,
)
from longhall.service.router import Router

QUEUE: Final = "q"
EXCHANGE: Final = "e"


@final
class ExchangeHandlers:
    """The handlers of exchanges and bindings."""

    def __init__(self, node: ManagedNode, rates: Rates) -> None:
        self._node = node
        self._rates = rates

    # Exchanges

    async def list_exchanges(self, service: Router, asked: Asked) -> Reply:
        """GET exchanges, exchanges/VHOST"""
        counts = exchange_counts(await self._node.everywhere(False))
        rows = [
            self._exchange(one, counts)
            for host in await hosts_of(service, asked)
            for one in [_default(host), *await service.call(ListExchanges(host), asked.caller)]
        ]
        return await listed(asked, rows)

    async def show_exchange(self, service: Router, asked: Asked) -> Reply:
        """GET exchanges/VHOST/NAME"""
        host, name = asked.names[0], exchange_named(asked.names[1])
        await check_host(service, asked.caller, host)
        one = await service.call(DescribeExchange(host, name), asked.caller) if name else _default(host)
        counts = exchange_counts(await self._node.everywhere(False))
        return shown(asked, {**self._exchange(one, counts), "incoming": [], "outgoing": []})

    def _exchange(self, one: ExchangeView, counts: dict[tuple[str, str], dict[str, int]]) -> Row:
        row: Row = {
            "name": one.name,
            "vhost": one.host,
            "type": one.kind,
            "durable": one.durable,
            "auto_delete": one.auto_delete,
            "internal": one.internal,
            "arguments": shown_table(one.arguments),
            "policy": None,
            "user_who_performed_action": "rmq-internal" if one.name.startswith("amq.") or not one.name else "",
        }
        found = counts.get((one.host, one.name))
        if found is not None:
            row["message_stats"] = self._rates.with_details(f"exchange {one.host} {one.name}", found)
        return row

    async def declare_exchange(self, service: Router, asked: Asked) -> Reply:
        """PUT exchanges/VHOST/NAME"""
        host, name = asked.names[0], exchange_named(asked.names[1])
        await check_host(service, asked.caller, host)
        body = body_of(asked)
        flags = (flag(body, "durable", True), flag(body, "auto_delete"), flag(body, "internal"))
        wanted = ExchangeView(host, name, text(body, "type", "direct"), *flags, table(body, "arguments"))
        is_new = await put_exchange(service, asked.caller, wanted)
        return Reply(None, HTTPStatus.CREATED) if is_new else NO_CONTENT

    async def delete_exchange(self, service: Router, asked: Asked) -> Reply:
        """DELETE exchanges/VHOST/NAME"""
        host, name = asked.names[0], exchange_named(asked.names[1])
        with amqp_refusals():
            refuse_reserved(name, host)
        await service.call(DescribeExchange(host, name), asked.caller)
        if_unused = asked.query.get("if-unused", "false") == "true"
        await service.call(DeleteExchange(host, name, if_unused), asked.caller)
        return NO_CONTENT

    # Bindings

    async def list_bindings(self, service: Router, asked: Asked) -> Reply:
        """GET bindings, bindings/VHOST"""
        rows: list[Row] = []
        for host in await hosts_of(service, asked):
            rows += await bindings_of(service, asked.caller, host)
        return await listed(asked, rows)

    async def list_of_queue(self, service: Router, asked: Asked) -> Reply:
        """GET queues/VHOST/NAME/bindings"""
        host, name = asked.names
        await service.find(hall_name(host, name), asked.caller)
        rows = await bindings_of(service, asked.caller, host)
        return await listed(asked, [row for row in rows if _goes_to(row, "queue", name)])

    async def list_from_exchange(self, service: Router, asked: Asked) -> Reply:
        """GET exchanges/VHOST/NAME/bindings/source"""
        name = exchange_named(asked.names[1])
        rows = await self._of_exchange(service, asked)
        return await listed(asked, [row for row in rows if row["source"] == name])

    async def list_to_exchange(self, service: Router, asked: Asked) -> Reply:
        """GET exchanges/VHOST/NAME/bindings/destination"""
        name = exchange_named(asked.names[1])
        rows = await self._of_exchange(service, asked)
        return await listed(asked, [row for row in rows if _goes_to(row, "exchange", name)])

    async def _of_exchange(self, service: Router, asked: Asked) -> list[Row]:
        host, name = asked.names[0], exchange_named(asked.names[1])
        if name:
            await service.call(DescribeExchange(host, name), asked.caller)
        return await bindings_of(service, asked.caller, host)

    async def list_between(self, service: Router, asked: Asked) -> Reply:
        """GET bindings/VHOST/e/SOURCE/q|e/DESTINATION"""
        return await listed(asked, await self._between(service, asked))

    async def show_binding(self, service: Router, asked: Asked) -> Reply:
        """GET bindings/VHOST/e/SOURCE/q|e/DESTINATION/PROPERTIES"""
        return shown(asked, await self._binding(service, asked))

    async def _between(self, service: Router, asked: Asked) -> list[Row]:
        host, source, kind, destination = asked.names[0], exchange_named(asked.names[1]), asked.names[2], asked.names[3]
        rows = await bindings_of(service, asked.caller, host)
        return [row for row in rows if row["source"] == source and _goes_to(row, _kind(kind), destination)]

    async def _binding(self, service: Router, asked: Asked) -> Row:
        for row in await self._between(service, asked):
            # The path is decoded once more than the key of a client, which quotes it for the path.
            if asked.names[4] in (row["properties_key"], _unquoted(row["properties_key"])):
                return row
        raise LonghallError(Code.UNKNOWN_EXCHANGE, "no such binding")

    async def bind(self, service: Router, asked: Asked) -> Reply:
        """POST bindings/VHOST/e/SOURCE/q|e/DESTINATION"""
        host, source, kind, destination = asked.names[0], exchange_named(asked.names[1]), asked.names[2], asked.names[3]
        await check_host(service, asked.caller, host)
        body = body_of(asked)
        key, arguments = text(body, "routing_key", ""), table(body, "arguments")
        binding = binding_of(host, source, _kind(kind) == "exchange", destination, key, arguments)
        await put_binding(service, asked.caller, binding)
        place = f"{quote(destination, safe='')}/{quote(properties_key(binding), safe='')}"
        return Reply(None, HTTPStatus.CREATED, f"Location: {place}\r\n")

    async def unbind(self, service: Router, asked: Asked) -> Reply:
        """DELETE bindings/VHOST/e/SOURCE/q|e/DESTINATION/PROPERTIES"""
        row = await self._binding(service, asked)
        if not row["source"]:
            raise LonghallError(Code.INVALID_REQUEST, "operation not permitted on the default exchange")
        host, to_exchange = row["vhost"], row["destination_type"] == "exchange"
        hall = row["destination"] if to_exchange else hall_name(host, row["destination"])
        for one in await service.call(ListBindings(host), asked.caller):
            if one.source == row["source"] and one.destination == hall and shown_binding(one) == row:
                await service.call(UnbindExchange(one), asked.caller)
        return NO_CONTENT


async def hosts_of(service: Router, asked: Asked) -> list[str]:
    """The virtual host of a path, or all of them."""
    if not asked.names:
        return await service.call(ListVirtualHosts(), asked.caller)
    await check_host(service, asked.caller, asked.names[0])
    return [asked.names[0]]


async def bindings_of(service: Router, caller: Caller, host: str) -> list[Row]:
    """The bindings of a virtual host, those of the default exchange to every queue first."""
    queues = await queue_rows(service, caller, host)
    rows = [shown_binding(BindingView(host, "", False, row["hall"], row["name"], b"")) for row in queues]
    return rows + [shown_binding(one) for one in await service.call(ListBindings(host), caller)]


def exchange_counts(reports: list[NodeReport]) -> dict[tuple[str, str], dict[str, int]]:
    """The counters of exchanges, of all doors together."""
    totals: dict[tuple[str, str], dict[str, int]] = {}
    for report in reports:
        for one in report.door.exchanges:
            total = totals.setdefault(
                (one.host, one.name), {"publish_in": 0, "publish_out": 0, "confirm": 0, "return_unroutable": 0}
            )
            total["publish_in"] += one.published
            total["publish_out"] += one.routed
            total["confirm"] += one.confirmed
            total["return_unroutable"] += one.returned
    return totals


def _default(host: str) -> ExchangeView:
    return ExchangeView(host, "", "direct", True, False, False, b"")


def _goes_to(row: Row, kind: str, name: str) -> bool:
    return bool(row["destination_type"] == kind and row["destination"] == name)


def _kind(letter: str) -> str:
    if letter not in (QUEUE, EXCHANGE):
        raise LonghallError(Code.UNKNOWN_EXCHANGE, f"'{letter}' is neither q nor e")
    return "queue" if letter == QUEUE else "exchange"


def _unquoted(key: str) -> str:
    return unquote(key)

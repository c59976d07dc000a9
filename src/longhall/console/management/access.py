"""Virtual hosts in RabbitMQ's shapes, and answers that are the same for all users. `permissions` has the users."""

from __future__ import annotations

from http import HTTPStatus
from typing import Final, final

from longhall.console.api.asked import Asked, Reply
from longhall.console.management.bodies import body_of, flag, text
from longhall.console.management.pages import Row, listed, shown
from longhall.console.management.queues import NO_CONTENT, check_host, queue_rows, states_of
from longhall.console.management.rates import Rates
from longhall.console.management.sources import ManagedNode
from longhall.doors.amqp.declarations import CLASSIC
from longhall.errors import Code, LonghallError
from longhall.exchanges.names import DEFAULT_HOST
from longhall.service.exchange_operations import AddVirtualHost, ListVirtualHosts, RemoveVirtualHost
from longhall.service.router import Router

NO_LIMITS: Final = "limits of users and virtual hosts, and topic permissions, are not stored"


@final
class AccessHandlers:
    """The handlers of virtual hosts, and of features that Longhall does not have."""

    def __init__(self, node: ManagedNode, rates: Rates) -> None:
        self._node = node
        self._rates = rates

    async def refuse_limits(self, service: Router, asked: Asked) -> Reply:
        """PUT and DELETE of limits and topic permissions"""
        raise LonghallError(Code.INVALID_REQUEST, NO_LIMITS)

    async def list_nothing(self, service: Router, asked: Asked) -> Reply:
        """GET of what Longhall does not have: topic permissions, limits, runtime parameters, deprecated features"""
        return Reply([])

    # Virtual hosts

    async def list_hosts(self, service: Router, asked: Asked) -> Reply:
        """GET vhosts"""
        names = await service.call(ListVirtualHosts(), asked.caller)

        async def fill(rows: list[Row]) -> list[Row]:
            return [await self._host(service, asked, row["name"]) for row in rows]

        return await listed(asked, [{"name": name} for name in names], fill)

    async def show_host(self, service: Router, asked: Asked) -> Reply:
        """GET vhosts/NAME"""
        await check_host(service, asked.caller, asked.name)
        return shown(asked, await self._host(service, asked, asked.name))

    async def _host(self, service: Router, asked: Asked, name: str) -> Row:
        queues = await queue_rows(service, asked.caller, name)
        states = await states_of(service, asked.caller, [row["hall"] for row in queues])
        ready, unacknowledged = sum(one.available for one in states), sum(one.in_flight for one in states)
        depths = {
            "messages": ready + unacknowledged,
            "messages_ready": ready,
            "messages_unacknowledged": unacknowledged,
        }
        return {
            "name": name,
            "description": "Default virtual host" if name == DEFAULT_HOST else "",
            "tags": [],
            "default_queue_type": CLASSIC,
            "metadata": {"description": "", "tags": [], "default_queue_type": CLASSIC},
            "tracing": False,
            "cluster_state": {self._node.name: "running"},
            "protected_from_deletion": name == DEFAULT_HOST,
            **self._rates.with_details(f"vhost {name}", depths),
        }

    async def add_host(self, service: Router, asked: Asked) -> Reply:
        """PUT vhosts/NAME"""
        body = body_of(asked)
        kind = text(body, "default_queue_type", CLASSIC)
        if kind not in (CLASSIC, "undefined"):
            why = f"'default_queue_type' would have no effect: a queue without x-queue-type is {CLASSIC}, not '{kind}'"
            raise LonghallError(Code.INVALID_REQUEST, why)
        if flag(body, "tracing"):
            raise LonghallError(Code.INVALID_REQUEST, "'tracing' would have no effect: messages are not traced")
        known = await service.call(ListVirtualHosts(), asked.caller)
        await service.call(AddVirtualHost(asked.name), asked.caller)
        return NO_CONTENT if asked.name in known else Reply(None, HTTPStatus.CREATED)

    async def remove_host(self, service: Router, asked: Asked) -> Reply:
        """DELETE vhosts/NAME"""
        await service.call(RemoveVirtualHost(asked.name), asked.caller)
        return NO_CONTENT

"""Queues over the management API: lists with their messages and rates, declaration, deletion, purge.

A list asks the leader for the names, and for the state of the queues that are shown in calls of up to a thousand.
Queues that other replication groups store are measured there.
"""

from __future__ import annotations

import asyncio
from http import HTTPStatus
from typing import Final, final

from longhall.broker.queue_policies import CLASSIC, queue_type
from longhall.cluster.rpc.operation import Caller
from longhall.console.api.asked import Asked, Reply
from longhall.console.management.bodies import amqp_refusals, body_of, flag, table
from longhall.console.management.consumers import consumers_of
from longhall.console.management.declarations import put_queue, shown_table
from longhall.console.management.pages import Row, listed, shown
from longhall.console.management.rates import Rates
from longhall.console.management.sources import ManagedNode
from longhall.doors.amqp.declarations import check_owner
from longhall.errors import Code, LonghallError
from longhall.exchanges.names import hall_name, names_of
from longhall.queues.messages import Depth
from longhall.queues.settings import AmqpSettings
from longhall.service.exchange_operations import ClearQueue, ListVirtualHosts, QueueUse, RemoveQueue, UseQueue
from longhall.service.policy_operations import STATES_MAX, DescribeQueues, QueueState
from longhall.service.queue_operations import ListQueues, MeasureQueue
from longhall.service.router import Router

PLACED_AT_ONCE: Final = 32  # Queues of other groups that are measured at the same time.
NO_CONTENT: Final = Reply(None, HTTPStatus.NO_CONTENT)
HALL: Final = "hall"  # The field of a row with the name of the hall's queue; it is not shown.


@final
class QueueHandlers:
    """The handlers of queues."""

    def __init__(self, node: ManagedNode, rates: Rates) -> None:
        self._node = node
        self._rates = rates

    async def list_queues(self, service: Router, asked: Asked) -> Reply:
        """GET queues, queues/VHOST"""
        host = asked.names[0] if asked.names else None
        await check_host(service, asked.caller, host)
        rows = await queue_rows(service, asked.caller, host)

        async def fill(some: list[Row]) -> list[Row]:
            return await self.described(service, asked.caller, [row[HALL] for row in some])

        return await listed(asked, rows, fill)

    async def show_queue(self, service: Router, asked: Asked) -> Reply:
        """GET queues/VHOST/NAME"""
        host, name = asked.names[:2]
        hall = hall_name(host, name)
        found = await self.described(service, asked.caller, [hall])
        if not found:
            raise LonghallError(Code.UNKNOWN_QUEUE, f"no queue '{name}' in vhost '{host}'")
        reports = await self._node.everywhere(True)
        state = (await states_of(service, asked.caller, [hall]))[:1]
        consumers = consumers_of(reports, {one.name: one for one in state}, hall)
        return shown(asked, {**found[0], "consumer_details": consumers, "deliveries": [], "incoming": []})

    async def declare_queue(self, service: Router, asked: Asked) -> Reply:
        """PUT queues/VHOST/NAME"""
        host, name = asked.names
        await check_host(service, asked.caller, host)
        body = body_of(asked)
        if flag(body, "exclusive"):
            raise LonghallError(Code.INVALID_REQUEST, "an exclusive queue belongs to a connection of AMQP")
        durable, automatic = flag(body, "durable", True), flag(body, "auto_delete")
        is_new = await put_queue(service, asked.caller, host, name, durable, automatic, table(body, "arguments"))
        return Reply(None, HTTPStatus.CREATED) if is_new else NO_CONTENT

    async def delete_queue(self, service: Router, asked: Asked) -> Reply:
        """DELETE queues/VHOST/NAME"""
        await self._check_owner(service, asked)
        if_unused, if_empty = (asked.query.get(name, "false") == "true" for name in ("if-unused", "if-empty"))
        await service.call(RemoveQueue(hall_name(*asked.names), if_unused, if_empty), asked.caller)
        return NO_CONTENT

    async def purge_queue(self, service: Router, asked: Asked) -> Reply:
        """DELETE queues/VHOST/NAME/contents"""
        await self._check_owner(service, asked)
        await service.call(ClearQueue(hall_name(*asked.names)), asked.caller)
        return NO_CONTENT

    async def _check_owner(self, service: Router, asked: Asked) -> None:
        host, name = asked.names
        view = await service.find(hall_name(host, name), asked.caller)
        with amqp_refusals():
            check_owner(view.settings, "", name, host)

    async def described(self, service: Router, caller: Caller, names: list[str]) -> list[Row]:
        """Queues by their names in the hall, with their state and rates."""
        leader = self._node.leader_name()
        return [self._row(one, leader) for one in await states_of(service, caller, names)]

    def _row(self, one: QueueState, leader: str) -> Row:
        amqp = one.settings.amqp
        host, name = (amqp.host, amqp.name) if amqp is not None else names_of(one.name)
        kind = queue_type(amqp) if amqp is not None else CLASSIC
        messages = one.available + one.in_flight
        depths = {
            "messages": messages,
            "messages_ready": one.available,
            "messages_unacknowledged": one.in_flight,
        }
        stats = {"publish": one.sends, "deliver_get": one.deliveries, "deliver": one.deliveries, "ack": one.settles}
        row: Row = {
            "name": name,
            "vhost": host,
            "type": kind,
            "node": leader,
            "state": "running",
            **_declared(amqp),
            "policy": one.policy or None,
            "operator_policy": one.operator_policy or None,
            **self._rates.with_details(f"depth {one.name}", depths),
            "messages_delayed": one.delayed,
            "messages_persistent": messages,
            "messages_ram": 0,
            "message_bytes": one.bytes,
            "message_bytes_ready": one.bytes * one.available // messages if messages else 0,
            "message_bytes_unacknowledged": one.bytes * one.in_flight // messages if messages else 0,
            "message_bytes_persistent": one.bytes,
            "message_bytes_ram": 0,
            "consumers": one.consumers,
            "consumer_utilisation": 0,
            "consumer_capacity": 0,
            "exclusive_consumer_tag": None,
            "memory": 0,
            "message_stats": self._rates.with_details(f"queue {one.name}", stats),
        }
        if kind != CLASSIC:
            row |= {"leader": leader, "members": [leader], "online": [leader]}
        return row


def _declared(amqp: AmqpSettings | None) -> Row:
    return {
        "durable": amqp.durable if amqp is not None else True,
        "auto_delete": amqp.auto_delete if amqp is not None else False,
        "exclusive": bool(amqp is not None and amqp.owner),
        "arguments": shown_table(amqp.arguments) if amqp is not None else {},
    }


async def check_host(service: Router, caller: Caller, host: str | None) -> None:
    """UNKNOWN_VIRTUAL_HOST if there is none of this name."""
    if host is not None and host not in await service.call(ListVirtualHosts(), caller):
        raise LonghallError(Code.UNKNOWN_VIRTUAL_HOST, f"There is no virtual host '{host}'.")


async def queue_rows(service: Router, caller: Caller, host: str | None) -> list[Row]:
    """The queues of a virtual host, or all, by their names alone."""
    rows: list[Row] = []
    for hall in await service.call(ListQueues(""), caller):
        of, name = names_of(hall)
        if host is None or of == host:
            rows.append({"name": name, "vhost": of, HALL: hall})
    return rows


async def states_of(service: Router, caller: Caller, names: list[str]) -> list[QueueState]:
    """The state of these queues; those that are gone are left out."""
    found: list[QueueState] = []
    for at in range(0, len(names), STATES_MAX):
        found += await service.call(DescribeQueues(names[at : at + STATES_MAX]), caller)
    placed = [one for one in found if one.settings.wings]
    for at in range(0, len(placed), PLACED_AT_ONCE):
        some = placed[at : at + PLACED_AT_ONCE]
        depths = await asyncio.gather(*(_measured(service, caller, one.name) for one in some))
        uses = await asyncio.gather(*(_used(service, caller, one.name) for one in some))
        for one, depth, use in zip(some, depths, uses, strict=True):
            if depth is not None:
                one.available, one.in_flight, one.delayed = depth.available, depth.in_flight, depth.delayed
                one.bytes = depth.bytes
            if use is not None:
                one.consumers = use.consumers
                one.active_session, one.active_consumer = use.active_session, use.active_consumer
    return found


async def _measured(service: Router, caller: Caller, name: str) -> Depth | None:
    try:
        return await service.call(MeasureQueue(name), caller)
    except LonghallError:
        return None  # Its groups do not answer now: the list shows what the hall knows.


async def _used(service: Router, caller: Caller, name: str) -> QueueUse | None:
    try:
        return await service.call(UseQueue(name, counts=False), caller)
    except LonghallError:
        return None

"""The overview of a node and its cluster, and the requests by which tools recognise the server."""

from __future__ import annotations

from typing import Any, Final, final

from longhall.console.api.asked import Asked, Reply
from longhall.console.management.pages import Row, listed, shown
from longhall.console.management.queues import queue_rows, states_of
from longhall.console.management.rates import Rates
from longhall.console.management.sources import ManagedNode, NodeFacts, NodeReport
from longhall.doors.amqp.server import PRODUCT, VERSION
from longhall.doors.amqp.statistics import MessageCounts
from longhall.errors import Code, LonghallError
from longhall.exchanges.exchange import DELAYED, KINDS
from longhall.service.exchange_operations import ListExchanges, ListVirtualHosts
from longhall.service.router import Router

ERLANG: Final = "none"  # Tools show it; there is no Erlang here.
MANAGEMENT_VERSION: Final = VERSION
PLUGINS: Final = ["rabbitmq_management", "rabbitmq_prometheus"]


@final
class OverviewHandlers:
    """The handlers of the overview, of nodes, and of what the cluster is."""

    def __init__(self, node: ManagedNode, rates: Rates) -> None:
        self._node = node
        self._rates = rates

    async def overview(self, service: Router, asked: Asked) -> Reply:
        """GET overview"""
        reports = await self._node.everywhere(False)
        hosts = await service.call(ListVirtualHosts(), asked.caller)
        exchanges = 0
        for host in hosts:
            exchanges += len(await service.call(ListExchanges(host), asked.caller)) + 1
        queues = await queue_rows(service, asked.caller, None)
        states = await states_of(service, asked.caller, [row["hall"] for row in queues])
        ready, unacknowledged = sum(one.available for one in states), sum(one.in_flight for one in states)
        depths = {
            "messages": ready + unacknowledged,
            "messages_ready": ready,
            "messages_unacknowledged": unacknowledged,
        }
        doors = [report.door for report in reports]
        counts = total_counts(reports)
        stats = {**message_stats(counts), "drop_unroutable": counts.unroutable_dropped}
        churn = churn_of(reports, counts)
        row: Row = {
            "management_version": MANAGEMENT_VERSION,
            "rates_mode": "basic",
            "sample_retention_policies": {"global": [], "basic": [], "detailed": []},
            "exchange_types": [
                {"name": kind, "description": "", "enabled": True, "internal_purpose": ""} for kind in (*KINDS, DELAYED)
            ],
            "product_name": PRODUCT,
            "product_version": VERSION,
            "rabbitmq_version": VERSION,
            "cluster_name": self._node.cluster_name,
            "erlang_version": ERLANG,
            "erlang_full_version": "Longhall, which has no Erlang",
            "disable_stats": False,
            "enable_queue_totals": False,
            "is_op_policy_updating_enabled": True,
            "release_series_support_status": "",
            "cluster_tags": {},
            "node_tags": {},
            "default_queue_type": "classic",
            "message_stats": self._rates.with_details("overview messages", stats),
            "churn_rates": self._rates.with_details("overview churn", churn),
            "queue_totals": self._rates.with_details("overview queues", depths),
            "object_totals": {
                "channels": sum(one.open_channels for one in doors),
                "connections": sum(one.open_connections for one in doors),
                "consumers": sum(one.consumers for one in doors),
                "exchanges": exchanges,
                "queues": len(queues),
            },
            "statistics_db_event_queue": 0,
            "node": self._node.name,
            "listeners": [listener for report in reports for listener in _listeners(report.facts)],
            "contexts": [context for report in reports for context in _contexts(report.facts)],
        }
        return shown(asked, row)

    async def list_nodes(self, service: Router, asked: Asked) -> Reply:
        """GET nodes"""
        return await listed(asked, [self._row(report) for report in await self._node.everywhere(False)])

    async def show_node(self, service: Router, asked: Asked) -> Reply:
        """GET nodes/NAME"""
        return shown(asked, self._row(await self._report(asked.name)))

    async def show_memory(self, service: Router, asked: Asked) -> Reply:
        """GET nodes/NAME/memory: there is no breakdown by process, as the memory is not Erlang's."""
        await self._report(asked.name)
        return Reply({"memory": "not_available"})

    async def _report(self, name: str) -> NodeReport:
        for report in await self._node.everywhere(False):
            if report.facts.name == name:
                return report
        raise LonghallError(Code.UNKNOWN_MEMBER, f"no node '{name}'")

    def _row(self, report: NodeReport) -> Row:
        facts = report.facts
        gauges = {
            "mem_used": facts.memory_bytes,
            "fd_used": facts.descriptors,
            "sockets_used": facts.sockets,
            "proc_used": 1,
            "disk_free": facts.disk_free_bytes,
        }
        return {
            "name": facts.name,
            "type": "disc",
            "running": True,
            "being_drained": facts.draining,
            "uptime": min(max(facts.now_ms - facts.started_ms, 0), (1 << 32) - 1),
            "run_queue": 0,
            "processors": facts.processors,
            "os_pid": str(facts.os_pid),
            "fd_total": facts.descriptors_max,
            "sockets_total": facts.sockets_max,
            "proc_total": 1,
            "mem_limit": facts.memory_limit_bytes,
            "mem_alarm": facts.memory_alarm,
            "mem_calculation_strategy": "rss",
            "disk_free_limit": facts.disk_limit_bytes,
            "disk_free_alarm": facts.disk_alarm,
            "rates_mode": "basic",
            "enabled_plugins": PLUGINS,
            "rabbitmq_version": VERSION,
            "erlang_version": ERLANG,
            "partitions": [],
            "cluster_links": [],
            "config_files": [],
            "log_files": [],
            "applications": [{"name": "longhall", "description": "Longhall", "version": facts.version}],
            "exchange_types": [],
            "auth_mechanisms": [{"name": name, "description": "", "enabled": True} for name in ("PLAIN", "AMQPLAIN")],
            **self._rates.with_details(f"node {facts.name}", gauges),
        }

    async def cluster_name(self, service: Router, asked: Asked) -> Reply:
        """GET cluster-name"""
        return Reply({"name": self._node.cluster_name})

    async def list_global_parameters(self, service: Router, asked: Asked) -> Reply:
        """GET global-parameters"""
        return Reply([{"name": "cluster_name", "value": self._node.cluster_name}])

    async def extensions(self, service: Router, asked: Asked) -> Reply:
        """GET extensions"""
        return Reply([{"javascript": "dispatcher.js"}])

    async def version(self, service: Router, asked: Asked) -> Reply:
        """GET version"""
        return Reply(VERSION)

    async def login(self, service: Router, asked: Asked) -> Reply:
        """GET auth: how the user interface logs in."""
        return Reply({"oauth_enabled": False})

    async def show_parameter(self, service: Router, asked: Asked) -> Reply:
        """GET parameters/COMPONENT/VHOST/NAME: there is none."""
        raise LonghallError(Code.UNKNOWN_MESSAGE, f"no parameter '{asked.names[-1]}'")

    async def refuse_parameters(self, service: Router, asked: Asked) -> Reply:
        """PUT and DELETE of parameters"""
        said = "there is no component with runtime parameters here: federation and shovels are not those of RabbitMQ"
        raise LonghallError(Code.INVALID_REQUEST, said)


def total_counts(reports: list[NodeReport]) -> MessageCounts:
    """The counters of all doors together."""
    total = MessageCounts(sizes=[])
    for report in reports:
        for name in MessageCounts.__struct_fields__:
            if name == "sizes":
                continue
            setattr(total, name, getattr(total, name) + getattr(report.door.counts, name))
        sizes = report.door.counts.sizes
        total.sizes = (
            [a + b for a, b in zip(total.sizes or [0] * len(sizes), sizes, strict=True)] if sizes else total.sizes
        )
    return total


def message_stats(counts: MessageCounts) -> dict[str, int]:
    """Counters by the names of the management API."""
    return {
        "publish": counts.received,
        "confirm": counts.confirmed,
        "return_unroutable": counts.unroutable_returned,
        "ack": counts.acknowledged,
        "deliver": counts.consumed_manual,
        "deliver_no_ack": counts.consumed_automatic,
        "deliver_get": counts.delivered,
        "get": counts.got_manual,
        "get_no_ack": counts.got_automatic,
        "get_empty": counts.got_empty,
        "redeliver": counts.redelivered,
        "disk_reads": 0,
        "disk_writes": 0,
    }


def churn_of(reports: list[NodeReport], counts: MessageCounts) -> dict[str, int]:
    """Connections, channels and queues that came and went."""
    return {
        "connection_created": counts.connections_opened,
        "connection_closed": max(0, counts.connections_opened - sum(one.door.open_connections for one in reports)),
        "channel_created": counts.channels_opened,
        "channel_closed": max(0, counts.channels_opened - sum(one.door.open_channels for one in reports)),
        "queue_declared": counts.queues_declared,
        "queue_created": counts.queues_created,
        "queue_deleted": counts.queues_deleted,
    }


def _listeners(facts: NodeFacts) -> list[dict[str, Any]]:
    return [
        {"node": facts.name, "protocol": protocol, "ip_address": address, "port": port, "socket_opts": {}}
        for protocol, address, port in facts.listeners
    ]


def _contexts(facts: NodeFacts) -> list[dict[str, Any]]:
    """The management API of a node, as RabbitMQ lists its web applications."""
    return [
        {
            "node": facts.name,
            "description": "RabbitMQ Management",
            "path": "/",
            "ip": address,
            "port": str(port),
            "ssl_opts": [],
            "cowboy_opts": "[]",
        }
        for protocol, address, port in facts.listeners
        if protocol == "http"
    ]

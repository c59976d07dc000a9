"""The two listeners for RabbitMQ's tools: the management API, and the metrics of RabbitMQ's names."""

from __future__ import annotations

from typing import TYPE_CHECKING, final

from longhall.console.api.exchanges import EXCHANGE_ROUTES, definition_routes
from longhall.console.api.service import Api
from longhall.console.http import HttpServer
from longhall.console.management.definitions import DefinitionHandlers
from longhall.console.management.dialect import ManagementDialect
from longhall.console.management.rates import Rates
from longhall.console.management.routes import management_routes
from longhall.console.rabbitmq_families import RabbitmqMetrics
from longhall.console.sources import DoorStatus
from longhall.doors.amqp.server import AmqpServer
from longhall.front.admission import Budget
from longhall.front.rate_limits import RateLimits
from longhall.node.addresses import Address, parse_address
from longhall.node.management import NodeManagement

if TYPE_CHECKING:
    from longhall.node.assembly import Node


@final
class ManagementDoors:
    """Both listeners of one node, and the routes of the HTTP API that use the same handlers."""

    def __init__(self, node: Node, amqp: AmqpServer, budget: Budget, closed: str, rates: RateLimits) -> None:
        """`closed` is the reason to refuse all requests to the management API; empty to serve them."""
        logins = node.authentication.door("management", node.settings.management)
        self.managed = NodeManagement(node, amqp)
        definitions = DefinitionHandlers(self.managed)
        self.routes = (
            *EXCHANGE_ROUTES,
            *definition_routes(
                definitions.export_all, definitions.import_all, definitions.export_host, definitions.import_host
            ),
        )
        routes = management_routes(self.managed, Rates(node.world.clock), node.authentication.secrets)
        api = Api(node.service, routes, budget, logins, closed, ManagementDialect(logins), node.guard, rates)
        self._node = node
        per_address_max = node.settings.connections_per_address_max
        metrics = RabbitmqMetrics(self.managed, node.service)
        self._management = HttpServer({}, service=api, connections_per_address_max=per_address_max)
        self._prometheus = HttpServer({}, service=metrics, connections_per_address_max=per_address_max)

    async def open(self) -> tuple[Address, Address]:
        """Listen; the addresses of the management API and of the metrics."""
        tls, settings = self._node.tls, self._node.settings
        management, prometheus = parse_address(settings.management), parse_address(settings.prometheus)
        port = await self._management.start(tls.network_of("management"), management.host, management.port)
        metrics_port = await self._prometheus.start(tls.network_of("prometheus"), prometheus.host, prometheus.port)
        return Address(management.host, port), Address(prometheus.host, metrics_port)

    async def drain(self, seconds: float) -> None:
        """Complete requests that change something; refuse those that come."""
        await self._management.drain(seconds)

    def close(self) -> None:
        """Close both listeners and their connections."""
        self._management.close()
        self._prometheus.close()

    def management_status(self) -> DoorStatus:
        return DoorStatus("management", self._management.connection_count, self._management.refused.count)

    def prometheus_status(self) -> DoorStatus:
        return DoorStatus("prometheus", self._prometheus.connection_count, self._prometheus.refused.count)

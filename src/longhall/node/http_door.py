"""The HTTP door of a node: health, metrics, the HTTP API and the pages of browsers, all at one address."""

from __future__ import annotations

from functools import partial
from typing import final

from longhall.broker.hall import Hall
from longhall.cluster.membership.liveness import Liveness
from longhall.console.api.access import access_routes
from longhall.console.api.accounts import AccountHandlers
from longhall.console.api.groups import GROUP_ROUTES
from longhall.console.api.hosts import HOST_ROUTES
from longhall.console.api.keys import KEY_ROUTES
from longhall.console.api.limits import LIMIT_ROUTES
from longhall.console.api.recovery import recovery_routes
from longhall.console.api.routes import ROUTES
from longhall.console.api.scrub import SCRUB_ROUTES
from longhall.console.api.service import Api, Route
from longhall.console.api.upgrade import UPGRADE_ROUTES
from longhall.console.metrics import Registry
from longhall.console.routes import open_console
from longhall.console.sources import DoorStatus
from longhall.front.sealing.data_keys import CallCatalogue
from longhall.node import cluster_view
from longhall.node.addresses import Address, parse_address
from longhall.node.cluster_node import ClusterNode
from longhall.node.exposure import closed_api
from longhall.node.message_doors import FrontParts
from longhall.node.recovery_view import NodeRecovery
from longhall.node.settings import Settings
from longhall.node.status import NodeStatus
from longhall.node.tls import NodeTls
from longhall.node.web_login import web_login
from longhall.node.workers import Workers
from longhall.service.router import Router
from longhall.world.ports import World


@final
class HttpDoor:
    """The server with all its routes. A node of a cluster has more of them, and a worker shows the metrics of all."""

    def __init__(
        self,
        world: World,
        settings: Settings,
        hall: Hall,
        service: Router,
        front: FrontParts,
        status: NodeStatus,
        registry: Registry,
        call_catalogue: CallCatalogue,
        more_routes: tuple[Route, ...],
    ) -> None:
        self._settings = settings
        self._registry = registry
        accounts = AccountHandlers(front.authentication.secrets, world.clock)
        own_routes = (*ROUTES, *LIMIT_ROUTES, *accounts.routes(), *access_routes(front.guard))
        routes = (*own_routes, *UPGRADE_ROUTES, *SCRUB_ROUTES, *KEY_ROUTES, *more_routes)
        logins = front.authentication.door("http", settings.http)
        pages = web_login(world, settings, hall.queue_secret, logins, front.budget, call_catalogue)
        self._api = Api(
            service,
            routes,
            front.budget,
            logins,
            closed_api(settings, settings.http),
            access=front.guard,
            rates=front.limits.rates,
            sessions=pages.sessions,
        )
        per_address_max = settings.connections_per_address_max
        self._server = open_console(status, world.clock, registry, self._api, per_address_max)
        self._server.serve_also(pages)

    def serve_cluster(self, node: ClusterNode) -> None:
        """Show the cluster, and take the requests of its operators."""
        liveness = Liveness(node.peers)
        self._server.show("/cluster", partial(cluster_view.answer, node, liveness))
        self._registry.collect(partial(cluster_view.families_of, node, liveness))
        self._api.answer_also(HOST_ROUTES)
        self._api.answer_also(recovery_routes(NodeRecovery(node.recovery)))
        if node.wings is not None:
            self._api.answer_also(GROUP_ROUTES)

    def serve_workers(self, workers: Workers) -> None:
        """Show the metrics of all workers of this node."""
        self._registry.others = workers.others_metrics
        self._server.show("/metrics", partial(workers.show_metrics, self._registry))

    async def open(self, tls: NodeTls) -> Address:
        """Listen, and return the address."""
        http = parse_address(self._settings.http)
        port = await self._server.start(tls.network_of("http"), http.host, http.port)
        return Address(http.host, port)

    def status(self) -> DoorStatus:
        """The connections of the door."""
        return DoorStatus("http", self._server.connection_count, self._server.refused.count)

    async def drain(self, seconds: float) -> None:
        """Let requests end, for at most so long."""
        await self._server.drain(seconds)

    def close(self) -> None:
        """Close all connections."""
        self._server.close()

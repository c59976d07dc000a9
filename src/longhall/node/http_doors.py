"""The HTTP listeners of one node: the console with the HTTP API, the management API, and RabbitMQ's metrics.

They show one status and one registry of metrics, and share the readiness of the node.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, final

from longhall.cluster.placement.group_lags import GroupLags
from longhall.cluster.rpc.peers import Peers
from longhall.console.metrics import Registry
from longhall.front.sealing.data_keys import CallCatalogue
from longhall.node.addresses import Address
from longhall.node.exposure import closed_api
from longhall.node.http_door import HttpDoor
from longhall.node.management_doors import ManagementDoors
from longhall.node.message_doors import FrontParts
from longhall.node.readiness import Readiness
from longhall.node.status import NodeStatus

if TYPE_CHECKING:
    from longhall.node.assembly import Node
    from longhall.node.cluster_node import ClusterNode
    from longhall.node.workers import Workers


@final
class HttpDoors:
    """The listeners, and what they show. `label` is in every metric of this process."""

    def __init__(self, node: Node, front: FrontParts, label: str, call_catalogue: CallCatalogue) -> None:
        settings = node.settings
        self._hall = node.hall
        self._tls = node.tls
        self._readiness = Readiness(node.hall, front.budget)
        self.status = NodeStatus(node.hall, node.doors.kafka, front.budget, self._readiness)
        self.registry = Registry(label)
        self._management = ManagementDoors(
            node, node.doors.amqp, front.budget, closed_api(settings, settings.management), front.limits.rates
        )
        self._http = HttpDoor(
            node.world,
            settings,
            node.hall,
            node.service,
            front,
            self.status,
            self.registry,
            call_catalogue,
            self._management.routes,
        )
        self.status.doors = [
            *node.doors.sources(),
            self._http.status,
            self._management.management_status,
            self._management.prometheus_status,
        ]

    def serve_cluster(self, node: ClusterNode) -> None:
        """Show the cluster, and answer the other nodes."""
        self._http.serve_cluster(node)
        if node.group_directory is not None:
            self.status.lags = GroupLags(self._hall, node.group_directory)
        self._readiness.serve(node.peers, node)
        self._management.managed.serve(node.peers)

    def serve_workers(self, workers: Workers, peers: Peers) -> None:
        """Show the metrics of all workers of this node, and answer them."""
        self._http.serve_workers(workers)
        self._readiness.serve(peers)
        self._management.managed.serve(peers)

    async def open(self) -> dict[str, Address]:
        """Listen; the address of each door, by its name in the settings."""
        management, prometheus = await self._management.open()
        http = await self._http.open(self._tls)
        return {"management": management, "prometheus": prometheus, "http": http}

    async def drain(self, seconds: float) -> None:
        """Let requests end, for at most so long."""
        await asyncio.gather(self._http.drain(seconds), self._management.drain(seconds))

    def close(self) -> None:
        """Close all listeners and connections."""
        self._http.close()
        self._management.close()

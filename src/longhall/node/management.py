"""The node as its operators see it through the management API: its own AMQP door, and those of the other processes.

Workers of a node and nodes of a cluster are asked over their peer connections. One that does not answer in time is left
out.
"""

from __future__ import annotations

import asyncio
import logging
import os
import resource
from typing import TYPE_CHECKING, Final, final

import msgspec

from longhall.cluster.rpc.peers import Peers
from longhall.console.management.sources import NodeFacts, NodeReport
from longhall.console.process import descriptors_open, resident_bytes, version
from longhall.doors.amqp.listing import report_of
from longhall.doors.amqp.server import AmqpServer
from longhall.errors import LonghallError
from longhall.names import CATALOGUE_SHARD

if TYPE_CHECKING:
    from longhall.node.assembly import Node

REPORT: Final = "amqp-report"
CLOSE: Final = "amqp-close"
ANSWER_S: Final = 2.0
CLUSTER: Final = "longhall"
WITH_CONNECTIONS: Final = b"connections"

_log = logging.getLogger("longhall.management")
_reports: Final = msgspec.msgpack.Decoder(NodeReport)
_closes: Final = msgspec.msgpack.Decoder(tuple[str, str])


def name_of(number: int) -> str:
    """The name of a process by its number."""
    return f"{CLUSTER}@{number}"


@final
class NodeManagement:
    """Fulfils `console.management.sources.ManagedNode`."""

    def __init__(self, node: Node, amqp: AmqpServer) -> None:
        self._node = node
        self._amqp = amqp
        self._peers: Peers | None = None
        self._started_ms = node.world.clock.wall_ms()

    def serve(self, peers: Peers) -> None:
        """Ask other processes, and answer them."""
        self._peers = peers
        peers.serve(REPORT, self._answer)
        peers.serve(CLOSE, self._close)

    @property
    def name(self) -> str:
        return name_of(self._node.kafka_door.node_id)

    @property
    def cluster_name(self) -> str:
        return CLUSTER

    @property
    def users(self) -> list[str]:
        credentials = self._node.known.credentials
        keys = credentials.access_keys if credentials is not None else []
        return sorted({*keys, *self._node.authentication.authenticator.directory.accounts.users})

    @property
    def shows_queues(self) -> bool:
        return self._node.colleagues is not None or self._node.service.leads

    def leader_name(self) -> str:
        leadership = self._node.hall.leadership
        if leadership is None:
            return self.name
        number = leadership.leader_node(CATALOGUE_SHARD)
        return name_of(number) if number else ""

    def here(self, with_connections: bool) -> NodeReport:
        return NodeReport(self._facts(), report_of(self._amqp, self.name, with_connections))

    async def own(self, with_connections: bool) -> list[NodeReport]:
        if self._node.colleagues is None:
            return [self.here(with_connections)]
        return await self.everywhere(with_connections)

    async def everywhere(self, with_connections: bool) -> list[NodeReport]:
        body = WITH_CONNECTIONS if with_connections else b""
        replies = await asyncio.gather(*(self._ask(number, REPORT, body) for number in self._others()))
        reports = [self.here(with_connections)]
        for reply in replies:
            try:
                reports += [_reports.decode(reply)] if reply is not None else []
            except msgspec.DecodeError as error:
                _log.info("a report of another version cannot be read", extra={"reason": str(error)})
        return sorted(reports, key=lambda report: report.facts.name)

    async def close_connection(self, name: str, reason: str) -> bool:
        if self._close_here(name, reason):
            return True
        body = msgspec.msgpack.encode((name, reason))
        replies = await asyncio.gather(*(self._ask(number, CLOSE, body) for number in self._others()))
        return any(reply == b"1" for reply in replies)

    async def trouble(self) -> str | None:
        return await self._node.status.send_trouble()

    def _others(self) -> list[int]:
        leadership = self._node.hall.leadership
        if leadership is None or self._peers is None:
            return []
        return [host.node for host in leadership.members() if host.node != leadership.node]

    async def _ask(self, number: int, verb: str, body: bytes) -> bytes | None:
        assert self._peers is not None
        try:
            return await self._peers.request(number, verb, body, ANSWER_S)
        except (OSError, TimeoutError, LonghallError) as error:
            _log.info("a process did not answer", extra={"node": number, "verb": verb, "reason": str(error)})
            return None

    async def _answer(self, node: int, body: bytes) -> bytes:
        return msgspec.msgpack.encode(self.here(body == WITH_CONNECTIONS))

    async def _close(self, node: int, body: bytes) -> bytes:
        name, reason = _closes.decode(body)
        return b"1" if self._close_here(name, reason) else b""

    def _close_here(self, name: str, reason: str) -> bool:
        found = [one for one in self._amqp.connections.registered if one.origin.name == name]
        for connection in found:
            connection.force(reason)
        return bool(found)

    def _facts(self) -> NodeFacts:
        node, storage = self._node, self._node.status.storage()
        descriptors_max = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
        addresses = (
            ("amqp", node.amqp),
            ("http", node.addresses["management"]),
            ("http/prometheus", node.addresses["prometheus"]),
            ("kafka", node.kafka),
            ("sqs", node.sqs),
            ("stomp", node.addresses["stomp"]),
            ("http/web-stomp", node.addresses["stomp_websocket"]),
        )
        return NodeFacts(
            name=self.name,
            version=version(),
            started_ms=self._started_ms,
            now_ms=node.world.clock.wall_ms(),
            os_pid=os.getpid(),
            descriptors=descriptors_open(),
            descriptors_max=max(descriptors_max, 0),
            sockets=sum(door.connections for door in storage.doors),
            sockets_max=node.settings.connections_max,
            resident_bytes=resident_bytes(),
            memory_bytes=storage.memory_used_bytes,
            memory_limit_bytes=storage.memory_limit_bytes,
            memory_alarm=storage.memory_used_bytes >= storage.memory_limit_bytes or storage.backed_up,
            disk_free_bytes=storage.disk_free_bytes,
            disk_limit_bytes=node.settings.disk_reserve_bytes,
            disk_alarm=storage.disk_full,
            processors=os.cpu_count() or 1,
            draining=node.status.state == "draining",
            leads=node.service.leads,
            listeners=[(door, address.host, address.port) for door, address in addresses],
        )

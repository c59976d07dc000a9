"""Connections, channels and consumers over the management API, those of all processes and nodes that answer."""

from __future__ import annotations

from typing import Final, final

from longhall.console.api.asked import Asked, Reply
from longhall.console.management.consumers import channel_name, consumers_of
from longhall.console.management.pages import Row, listed, shown
from longhall.console.management.queues import NO_CONTENT, states_of
from longhall.console.management.sources import ManagedNode
from longhall.doors.amqp.listing import PROTOCOL, ChannelView, ConnectionView
from longhall.errors import Code, LonghallError
from longhall.service.router import Router

CLOSED: Final = "Closed via management plugin"


@final
class ConnectionHandlers:
    """The handlers of connections, channels and consumers."""

    def __init__(self, node: ManagedNode) -> None:
        self._node = node

    # Connections

    async def list_connections(self, service: Router, asked: Asked) -> Reply:
        """GET connections, vhosts/VHOST/connections"""
        host = asked.names[0] if asked.names else None
        return await listed(asked, [row for row in await self._connections() if host in (None, row["vhost"])])

    async def list_of_user(self, service: Router, asked: Asked) -> Reply:
        """GET connections/username/USER"""
        return await listed(asked, [row for row in await self._connections() if row["user"] == asked.name])

    async def show_connection(self, service: Router, asked: Asked) -> Reply:
        """GET connections/NAME"""
        return shown(asked, _found(await self._connections(), asked.name, "connection"))

    async def close_connection(self, service: Router, asked: Asked) -> Reply:
        """DELETE connections/NAME"""
        if not await self._node.close_connection(asked.name, asked.query.get("reason") or CLOSED):
            raise LonghallError(Code.UNKNOWN_MESSAGE, f"no connection '{asked.name}'")
        return NO_CONTENT

    async def close_of_user(self, service: Router, asked: Asked) -> Reply:
        """DELETE connections/username/USER"""
        for row in await self._connections():
            if row["user"] == asked.name:
                await self._node.close_connection(row["name"], CLOSED)
        return NO_CONTENT

    async def _connections(self) -> list[Row]:
        return [
            _connection(report.facts.name, one)
            for report in await self._node.everywhere(True)
            for one in report.door.connections
        ]

    # Channels

    async def list_channels(self, service: Router, asked: Asked) -> Reply:
        """GET channels, vhosts/VHOST/channels"""
        host = asked.names[0] if asked.names else None
        return await listed(asked, [row for row in await self._channels() if host in (None, row["vhost"])])

    async def list_of_connection(self, service: Router, asked: Asked) -> Reply:
        """GET connections/NAME/channels"""
        rows = [row for row in await self._channels() if row["connection_details"]["name"] == asked.name]
        return await listed(asked, rows)

    async def show_channel(self, service: Router, asked: Asked) -> Reply:
        """GET channels/NAME"""
        row = _found(await self._channels(), asked.name, "channel")
        reports = await self._node.everywhere(True)
        consumers = [one for one in consumers_of(reports, {}) if one["channel_details"]["name"] == asked.name]
        return shown(asked, {**row, "consumer_details": consumers})

    async def _channels(self) -> list[Row]:
        return [
            _channel(report.facts.name, connection, one)
            for report in await self._node.everywhere(True)
            for connection in report.door.connections
            for one in connection.channels
        ]

    # Consumers

    async def list_consumers(self, service: Router, asked: Asked) -> Reply:
        """GET consumers, consumers/VHOST"""
        host = asked.names[0] if asked.names else None
        reports = await self._node.everywhere(True)
        queues = {
            consumer.queue: None
            for report in reports
            for connection in report.door.connections
            for channel in connection.channels
            for consumer in channel.consumers
        }
        states = {one.name: one for one in await states_of(service, asked.caller, list(queues))}
        rows = consumers_of(reports, states)
        return await listed(asked, [row for row in rows if host in (None, row["queue"]["vhost"])])


def _connection(node: str, one: ConnectionView) -> Row:
    return {
        "name": one.name,
        "node": node,
        "protocol": PROTOCOL,
        "type": "network",
        "user": one.user,
        "user_who_performed_action": one.user,
        "vhost": one.host,
        "state": one.state,
        "connected_at": one.connected_ms,
        "client_properties": one.properties,
        "user_provided_name": one.properties.get("connection_name"),
        "channels": len(one.channels),
        "channel_max": one.channel_max,
        "frame_max": one.frame_max,
        "timeout": one.heartbeat_s,
        "auth_mechanism": one.mechanism,
        "host": one.local,
        "port": one.local_port,
        "peer_host": one.peer,
        "peer_port": one.peer_port,
        "ssl": one.is_tls,
        **({"ssl_protocol": one.tls_version, "ssl_cipher": one.cipher} if one.tls_version else {}),
        **({"peer_cert_subject": one.certificate} if one.certificate else {}),
        "pid": one.session,
        "send_pend": 0,
    }


def _channel(node: str, connection: ConnectionView, one: ChannelView) -> Row:
    return {
        "name": channel_name(connection, one),
        "number": one.number,
        "node": node,
        "vhost": connection.host,
        "user": connection.user,
        "user_who_performed_action": connection.user,
        "state": "closing" if one.is_closing else "running",
        "confirm": one.confirms,
        "transactional": one.transactional,
        "consumer_count": len(one.consumers),
        "prefetch_count": one.prefetch,
        "global_prefetch_count": one.limit,
        "messages_unacknowledged": one.unacknowledged,
        "messages_unconfirmed": one.unconfirmed,
        "messages_uncommitted": one.uncommitted,
        "acks_uncommitted": one.acks_uncommitted,
        "connection_details": {
            "name": connection.name,
            "node": node,
            "peer_host": connection.peer,
            "peer_port": connection.peer_port,
            "user": connection.user,
        },
    }


def _found(rows: list[Row], name: str, what: str) -> Row:
    for row in rows:
        if row["name"] == name:
            return row
    raise LonghallError(Code.UNKNOWN_MESSAGE, f"no {what} '{name}'")

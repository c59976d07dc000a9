"""The connections of the AMQP door of one process, with their channels and consumers, as an operator sees them.

They are read from the connections themselves when somebody asks, so the paths of messages keep no second book, and what
is shown is bounded by what is open.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import msgspec

from longhall.doors.amqp.statistics import ExchangeCounts, MessageCounts

if TYPE_CHECKING:
    from longhall.doors.amqp.channel import Channel
    from longhall.doors.amqp.connection import AmqpConnection
    from longhall.doors.amqp.server import AmqpServer

PROTOCOL: Final = "AMQP 0-9-1"
TEXT_MAX: Final = 1024  # Of one text in the properties of a client.
PROPERTIES_MAX: Final = 64


class ConsumerView(msgspec.Struct, array_like=True):
    """A consumer of a channel."""

    tag: str
    queue: str  # As the hall names it.
    no_ack: bool
    exclusive: bool
    prefetch: int
    priority: int
    key: int  # Within its session.
    unacknowledged: int


class ChannelView(msgspec.Struct, array_like=True):
    """A channel of a connection."""

    number: int
    confirms: bool
    transactional: bool
    prefetch: int
    limit: int
    unacknowledged: int
    unconfirmed: int
    uncommitted: int
    acks_uncommitted: int
    consumers: list[ConsumerView]
    is_closing: bool = False


class ConnectionView(msgspec.Struct, array_like=True):
    """A connection that has logged in."""

    name: str
    user: str
    host: str
    peer: str
    peer_port: int
    local: str
    local_port: int
    connected_ms: int
    state: str
    channel_max: int
    frame_max: int
    heartbeat_s: int
    mechanism: str
    properties: dict[str, Any]
    session: str
    channels: list[ChannelView]
    is_tls: bool = False
    tls_version: str = ""  # Empty if a balancer has ended TLS.
    cipher: str = ""
    certificate: str = ""  # The distinguished name in the client's certificate.


class DoorReport(msgspec.Struct, array_like=True):
    """The AMQP door of one process."""

    node: str
    connections: list[ConnectionView]
    counts: MessageCounts
    exchanges: list[ExchangeCounts]
    open_connections: int = 0
    open_channels: int = 0
    consumers: int = 0
    publishers: int = 0  # Connections that have published.


def report_of(server: AmqpServer, node: str, with_connections: bool) -> DoorReport:
    """The door of this process; without its connections it has their numbers alone."""
    connections = [one for one in server.connections.registered if one.handshake.state == "running"]
    return DoorReport(
        node=node,
        connections=[_connection(one) for one in connections] if with_connections else [],
        counts=server.statistics.snapshot(),
        exchanges=server.statistics.exchanges,
        open_connections=len(connections),
        open_channels=sum(len(one.channels) for one in connections),
        consumers=sum(len(one.consumers) for one in connections),
        publishers=sum(one.origin.has_published for one in connections),
    )


def _connection(one: AmqpConnection) -> ConnectionView:
    handshake, origin = one.handshake, one.origin
    client = origin.client
    return ConnectionView(
        name=origin.name,
        user=handshake.user,
        host=one.host,
        peer=origin.peer,
        peer_port=origin.peer_port,
        local=origin.local,
        local_port=origin.local_port,
        connected_ms=origin.connected_ms,
        state="closing" if one.is_over else "running",
        channel_max=handshake.channel_max,
        frame_max=handshake.frame_max,
        heartbeat_s=handshake.heartbeat_s,
        mechanism=handshake.mechanism,
        properties=shown_properties(handshake.client_properties),
        session=one.session_id,
        channels=[_channel(one, channel) for channel in one.channels.values()],
        is_tls=client is not None and client.is_tls,
        tls_version=client.tls_version if client is not None else "",
        cipher=client.cipher if client is not None else "",
        certificate=client.names.distinguished_name if client is not None and client.names is not None else "",
    )


def _channel(connection: AmqpConnection, channel: Channel) -> ChannelView:
    return ChannelView(
        number=channel.number,
        confirms=channel.confirms,
        transactional=channel.is_transactional,
        prefetch=channel.prefetch,
        limit=channel.limit,
        unacknowledged=len(channel.unacknowledged),
        unconfirmed=connection.publisher.unconfirmed(channel),
        uncommitted=len(channel.transaction),
        acks_uncommitted=sum(len(ended) for _, ended in channel.transaction_ends),
        consumers=[
            ConsumerView(
                tag=consumer.tag,
                queue=consumer.queue,
                no_ack=consumer.no_ack,
                exclusive=consumer.asked[0],
                prefetch=consumer.prefetch,
                priority=consumer.asked[1],
                key=consumer.key,
                unacknowledged=consumer.outstanding,
            )
            for consumer in channel.consumers.values()
        ],
        is_closing=channel.is_closing,
    )


def shown_properties(properties: dict[str, Any]) -> dict[str, Any]:
    """What a client says of itself, within bounds: texts, numbers, and one level of tables."""
    shown: dict[str, Any] = {}
    for name, value in list(properties.items())[:PROPERTIES_MAX]:
        if isinstance(value, dict):
            inner = list(value.items())[:PROPERTIES_MAX]
            shown[name[:TEXT_MAX]] = {key[:TEXT_MAX]: one for key, one in inner if isinstance(one, bool | int | str)}
        elif isinstance(value, str):
            shown[name[:TEXT_MAX]] = value[:TEXT_MAX]
        elif isinstance(value, bool | int | float):
            shown[name[:TEXT_MAX]] = value
    return shown

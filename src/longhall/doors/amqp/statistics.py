"""What the AMQP door of one process has counted since it started, as the management API and metrics show it.

The counters cost the paths of messages an addition each. Channels and connections that are closed are not counted: they
are those that were opened and are not open any more.
"""

from __future__ import annotations

from asyncio import BaseTransport
from typing import Final

import msgspec

from longhall.front.handshake_refusals import note_tls
from longhall.front.origins import Origin, origin_of
from longhall.meters import Histogram

EXCHANGES_COUNTED_MAX: Final = 10_000  # Exchanges with counters of their own; those beyond count in the totals alone.
SIZE_BOUNDS: Final[tuple[float, ...]] = (100, 1_000, 10_000, 100_000, 1_000_000, 10_000_000, 50_000_000, 100_000_000)


class ExchangeCounts(msgspec.Struct, array_like=True):
    """The messages of one exchange: published to it, and the copies that went to queues."""

    host: str
    name: str
    published: int = 0
    routed: int = 0
    confirmed: int = 0
    returned: int = 0


class MessageCounts(msgspec.Struct, array_like=True):
    """Counters of messages, connections, channels and declarations; `sizes` are the counts between SIZE_BOUNDS."""

    received: int = 0
    received_confirm: int = 0
    confirmed: int = 0
    routed: int = 0
    unroutable_dropped: int = 0
    unroutable_returned: int = 0
    consumed_automatic: int = 0  # Pushed to a consumer that acknowledges nothing,
    consumed_manual: int = 0  # and to one that does.
    got_automatic: int = 0
    got_manual: int = 0
    got_empty: int = 0
    redelivered: int = 0
    acknowledged: int = 0
    connections_opened: int = 0
    channels_opened: int = 0
    queues_declared: int = 0
    queues_created: int = 0
    queues_deleted: int = 0
    sizes: list[int] = []
    sizes_total: float = 0.0

    @property
    def delivered(self) -> int:
        """Messages given to clients, in whatever way."""
        return self.consumed_automatic + self.consumed_manual + self.got_automatic + self.got_manual


class ConnectionOrigin:
    """The addresses of a connection and the time of its opening, for operators."""

    def __init__(self, connected_ms: int) -> None:
        self.connected_ms = connected_ms
        self.peer = ""
        self.peer_port = 0
        self.local = ""
        self.local_port = 0
        self.client: Origin | None = None  # What TLS or a balancer says of the client.
        self.has_published = False

    def made(self, transport: BaseTransport) -> str:
        """Read the addresses of a new connection; returns that of the client."""
        peer, own = transport.get_extra_info("peername"), transport.get_extra_info("sockname")
        self.peer, self.peer_port = (str(peer[0]), int(peer[1])) if peer else ("", 0)
        self.local, self.local_port = (str(own[0]), int(own[1])) if own else ("", 0)
        self.client = origin_of(transport)
        return self.peer

    @property
    def is_tls(self) -> bool:
        """True if the connection is encrypted: by this process, or by a trusted balancer."""
        return self.client is not None and self.client.is_tls

    def note_tls(self, data: bytes, now_s: float) -> None:
        """Log that the client begins TLS at a port without it, if its first bytes show that."""
        note_tls("amqp", self.peer, data, now_s)

    @property
    def name(self) -> str:
        """The name by which operators know the connection."""
        return f"{self.peer}:{self.peer_port} -> {self.local}:{self.local_port}"


class DoorStatistics:
    """The counters of one door."""

    def __init__(self) -> None:
        self.counts = MessageCounts()
        self.sizes = Histogram(SIZE_BOUNDS)
        self._exchanges: dict[tuple[str, str], ExchangeCounts] = {}

    def snapshot(self) -> MessageCounts:
        """The counters now."""
        return msgspec.structs.replace(self.counts, sizes=list(self.sizes.counts), sizes_total=self.sizes.total)

    @property
    def exchanges(self) -> list[ExchangeCounts]:
        """The counters of exchanges."""
        return list(self._exchanges.values())

    def published(self, size_bytes: int, confirms: bool) -> None:
        """A client has published a message."""
        counts = self.counts
        counts.received += 1
        if confirms:
            counts.received_confirm += 1
        self.sizes.observe(size_bytes)

    def taken(self, published: int, confirmed: int, acknowledged: int) -> None:
        """Messages were published, some of them with confirms, and others acknowledged; `sizes` has their sizes."""
        counts = self.counts
        counts.received += published
        counts.received_confirm += confirmed
        counts.acknowledged += acknowledged

    def ended(self, host: str, exchange: str, routed: int, is_mandatory: bool, confirmed: bool, count: int) -> None:
        """Published messages are in as many queues each, or have none."""
        counts = self.counts
        if routed:
            counts.routed += count
        elif is_mandatory:
            counts.unroutable_returned += count
        else:
            counts.unroutable_dropped += count
        if confirmed:
            counts.confirmed += count
        one = self._exchanges.get((host, exchange))
        if one is None:
            if len(self._exchanges) >= EXCHANGES_COUNTED_MAX:
                return
            one = self._exchanges[host, exchange] = ExchangeCounts(host, exchange)
        one.published += count
        one.routed += routed * count
        one.confirmed += count if confirmed else 0
        one.returned += count if not routed and is_mandatory else 0

    def pushed(self, count: int, redelivered: int, no_ack: bool) -> None:
        """Messages went to a consumer."""
        if no_ack:
            self.counts.consumed_automatic += count
        else:
            self.counts.consumed_manual += count
        self.counts.redelivered += redelivered

    def got(self, redelivered: bool, no_ack: bool) -> None:
        """A client has got a message with basic.get."""
        if no_ack:
            self.counts.got_automatic += 1
        else:
            self.counts.got_manual += 1
        self.counts.redelivered += redelivered

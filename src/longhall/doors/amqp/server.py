"""The AMQP door: accepts connections, within limits, and has what they share.

Invariant: whatever bytes a client sends, no exception leaves its connection, and others do not notice.
"""

from __future__ import annotations

import asyncio
from base64 import urlsafe_b64encode
from collections import Counter
from collections.abc import Callable
from typing import Final, final

from longhall.doors.amqp.alarms import Alarms
from longhall.doors.amqp.connection import AmqpConnection
from longhall.doors.amqp.declarations import MESSAGE_BYTES_MAX
from longhall.doors.amqp.errors import CONNECTION_FORCED, NAMES, AmqpError
from longhall.doors.amqp.handshake import Handshake
from longhall.doors.amqp.revoked_consumers import close_revoked
from longhall.doors.amqp.statistics import ConnectionOrigin, DoorStatistics
from longhall.doors.amqp.wire.methods import METHODS
from longhall.errors import LonghallError
from longhall.exchanges.field_table import encode_table
from longhall.front.admission import Budget
from longhall.front.authenticator import DoorAuthentication
from longhall.front.connection_registry import ConnectionRegistry
from longhall.front.identity import ANONYMOUS, Principal
from longhall.front.origins import Origin
from longhall.front.rate_limits import RateLimits, unlimited
from longhall.front.refused_requests import RefusedRequests
from longhall.service.router import Router
from longhall.service.sessions import Sessions
from longhall.world.ports import Clock, Entropy, Network

HANDSHAKE_S: Final = 10.0
NAME_BYTES: Final = 16  # Of generated names: 22 characters.
PRODUCT: Final = "RabbitMQ"  # Clients decide by product and version which methods they use.
VERSION: Final = "3.13.7"
CAPABILITIES: Final = (
    "authentication_failure_close",
    "basic.nack",
    "connection.blocked",
    "consumer_cancel_notify",
    "consumer_priorities",
    "direct_reply_to",
    "exchange_exchange_bindings",
    "per_consumer_qos",
    "publisher_confirms",
)


@final
class AmqpServer:
    """The listener with all its connections."""

    def __init__(
        self,
        service: Router,
        sessions: Sessions,
        entropy: Entropy,
        clock: Clock,
        budget: Budget,
        is_disk_full: Callable[[], bool],
        authentication: DoorAuthentication | None = None,
        connections_max: int = 16_384,
        connections_per_address_max: int = 16_384,
        node_name: str = "longhall",
        rates: RateLimits | None = None,
    ) -> None:
        self.rates = rates if rates is not None else unlimited()
        self.service = service
        self.sessions = sessions
        self.budget = budget
        self.alarms = Alarms(budget, is_disk_full)
        self.message_bytes_max = MESSAGE_BYTES_MAX
        self.handshake_s = HANDSHAKE_S
        self.connections: ConnectionRegistry[AmqpConnection] = ConnectionRegistry(
            connections_max, connections_per_address_max, "amqp"
        )
        self.statistics = DoorStatistics()
        self.failures: Counter[int] = Counter()  # By reply code.
        self._refused = RefusedRequests("amqp")
        self.properties = encode_table(
            {
                "capabilities": dict.fromkeys(CAPABILITIES, True),
                "cluster_name": node_name,
                "copyright": "",
                "information": "Longhall speaks AMQP 0-9-1; product and version are those whose behaviour it has.",
                "platform": "Longhall",
                "product": PRODUCT,
                "version": VERSION,
            }
        )
        self._entropy = entropy
        self._clock = clock
        self.authentication = authentication  # None: every user may log in.
        self._loop = asyncio.get_running_loop()

    async def open(self, network: Network, host: str, port: int) -> int:
        """Listen, and return the port."""
        self.connections.listener, bound = await network.listen(self._connection, host, port)
        return bound

    def _connection(self) -> asyncio.BaseProtocol:
        return AmqpConnection(self, self._loop)

    def stop_accepting(self) -> None:
        """Take no new connections."""
        self.connections.stop_accepting()

    async def drain(self, seconds: float) -> None:
        """Wait for outstanding confirms, tell every client that the node stops, and close all connections."""
        for connection in list(self.connections.registered):
            if not connection.is_owed:
                connection.force("broker forced connection closure with reason 'shutdown'")
        await asyncio.sleep(0)
        await self.connections.drain(seconds)

    # For connections

    def opened(self, connection: AmqpConnection) -> bool:
        """Register a connection; False if there are too many."""
        self.statistics.counts.connections_opened += 1
        return self.connections.add(connection, self._loop.time())

    def closed(self, connection: AmqpConnection) -> None:
        """A connection is closed."""
        self.connections.remove(connection)

    def new_handshake(self, connection: AmqpConnection) -> Handshake:
        """The handshake of a new connection."""
        return Handshake(
            lambda user, password: self.login(user, password, connection.peer),
            lambda: self.login_by_certificate(connection.origin.client),
            lambda user, password: self._prepare_login(user, password, connection.peer),
        )

    async def _prepare_login(self, user: str, password: str, address: str) -> None:
        if self.authentication is not None and self.authentication.required:
            try:
                await self.authentication.prepare_login(user, password, address)
            except LonghallError as error:  # Too many logins wait.
                raise AmqpError(CONNECTION_FORCED, str(error)) from None

    def login(self, user: str, password: str, address: str) -> Principal | None:
        """The principal of a login; ANONYMOUS for every user if the door does not ask, None if it is refused."""
        if self.authentication is None:
            return ANONYMOUS
        try:
            return self.authentication.login(user, password, address)
        except LonghallError as error:  # The users are not known yet.
            raise AmqpError(CONNECTION_FORCED, str(error)) from None

    def login_by_certificate(self, origin: Origin | None) -> tuple[str, Principal | None]:
        """The user that a client's certificate names, and its principal; None if the login is refused."""
        if origin is None or not origin.user:
            return "", None
        if self.authentication is None:
            return origin.user, ANONYMOUS
        try:
            return origin.user, self.authentication.login_by_certificate(origin)
        except LonghallError as error:  # The users are not known yet.
            raise AmqpError(CONNECTION_FORCED, str(error)) from None

    def close_outdated(self) -> None:
        """Close the connections of users that may not be logged in any more, and the channels whose consumers they may
        not have any more: the directory has changed.
        """
        authentication = self.authentication
        if authentication is None:
            return
        for connection in list(self.connections.registered):
            principal = connection.handshake.principal
            if principal is not None and not authentication.may_go_on(principal):
                connection.force("broker forced connection closure with reason 'user credentials have changed'")
            else:
                close_revoked(connection)

    def new_origin(self) -> ConnectionOrigin:
        """The origin of a new connection."""
        return ConnectionOrigin(self._clock.wall_ms())

    def new_id(self, size: int) -> str:
        """A random id of so many bytes."""
        return self._entropy.bytes(size).hex()

    def now_ms(self) -> int:
        """The time."""
        return self._clock.wall_ms()

    def new_name(self) -> str:
        """The random part of a generated name."""
        return urlsafe_b64encode(self._entropy.bytes(NAME_BYTES)).decode().rstrip("=")

    def note_refusal(self, error: AmqpError) -> None:
        """Count an error that is sent to a client, and log it."""
        self.failures[error.reply] += 1
        if error.reply != CONNECTION_FORCED:
            method = METHODS.get(error.method)
            self.note_refused("connection" if method is None else method.name, NAMES[error.reply], str(error))

    def note_refused(self, request: str, error: str, reason: str) -> None:
        """Log the refusal of a request."""
        self._refused.note(request, error, reason, self._loop.time())

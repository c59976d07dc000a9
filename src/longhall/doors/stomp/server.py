"""The STOMP door: accepts connections over TCP and over WebSocket, within limits, and has what they share.

Invariant: whatever bytes a client sends, no exception leaves its connection, and others do not notice.
"""

from __future__ import annotations

import asyncio
from base64 import urlsafe_b64encode
from collections import Counter
from typing import Final, final

from longhall.doors.stomp.connection import StompConnection
from longhall.doors.stomp.errors import StompError
from longhall.doors.stomp.websocket import StompWebSocket, UpgradeHandshakes
from longhall.doors.stomp.wire.frames import FRAME_BYTES_MAX
from longhall.front.admission import Budget
from longhall.front.authenticator import DoorAuthentication
from longhall.front.connection_registry import ConnectionRegistry
from longhall.front.identity import ANONYMOUS, Principal
from longhall.front.origins import Origin
from longhall.front.rate_limits import RateLimits, unlimited
from longhall.front.refused_requests import RefusedRequests
from longhall.service.router import Router
from longhall.service.sessions import Sessions
from longhall.world.ports import Entropy, Listener, Network

HANDSHAKE_S: Final = 10.0
NAME_BYTES: Final = 16  # Of generated names: 22 characters.


@final
class StompServer:
    """Both listeners with all their connections."""

    def __init__(
        self,
        service: Router,
        sessions: Sessions,
        entropy: Entropy,
        budget: Budget,
        authentication: DoorAuthentication | None = None,
        connections_max: int = 16_384,
        connections_per_address_max: int = 16_384,
        rates: RateLimits | None = None,
    ) -> None:
        self.rates = rates if rates is not None else unlimited()
        self.service = service
        self.sessions = sessions
        self.budget = budget
        self.frame_bytes_max = FRAME_BYTES_MAX
        self.handshake_s = HANDSHAKE_S
        self.connections: ConnectionRegistry[StompConnection] = ConnectionRegistry(
            connections_max, connections_per_address_max, "stomp"
        )
        self.published = 0
        self.delivered = 0
        self.errors: Counter[str] = Counter()  # By the message of the ERROR.
        self._refused = RefusedRequests("stomp")
        self._handshakes = UpgradeHandshakes()
        self._websocket_listener: Listener | None = None
        self._entropy = entropy
        self.authentication = authentication  # None: every user may log in.
        self._loop = asyncio.get_running_loop()

    async def open(self, network: Network, host: str, port: int) -> int:
        """Listen for TCP clients, and return the port."""
        self.connections.listener, bound = await network.listen(self._connection, host, port)
        return bound

    async def open_websocket(self, network: Network, host: str, port: int) -> int:
        """Listen for WebSocket clients, and return the port."""
        self._websocket_listener, bound = await network.listen(self._websocket, host, port)
        return bound

    def _connection(self) -> StompConnection:
        return StompConnection(self, self._loop)

    def _websocket(self) -> asyncio.BaseProtocol:
        return StompWebSocket(self._connection, self._loop, self.handshake_s, self._handshakes)

    def stop_accepting(self) -> None:
        """Take no new connections."""
        self.connections.stop_accepting()
        if self._websocket_listener is not None:
            self._websocket_listener.close()
            self._websocket_listener = None

    async def drain(self, seconds: float) -> None:
        """Wait for outstanding receipts, and close all connections."""
        await self.connections.drain(seconds)

    # For connections

    def opened(self, connection: StompConnection) -> bool:
        """Register a connection; False if there are too many."""
        return self.connections.add(connection, self._loop.time())

    def closed(self, connection: StompConnection) -> None:
        """A connection is closed."""
        self.connections.remove(connection)

    def note_refusal(self, command: str, error: StompError) -> None:
        """Count an ERROR that is sent to a client, and log it."""
        self.errors[error.message] += 1
        self.note_refused(command, error)

    def note_refused(self, command: str, error: StompError) -> None:
        """Log the refusal of a frame."""
        self._refused.note(command, error.message, error.body.strip(), self._loop.time())

    def login(self, user: str, password: str, address: str) -> Principal | None:
        """The principal of a login; ANONYMOUS for every user if the door does not ask, None if it is refused."""
        if self.authentication is None:
            return ANONYMOUS
        return self.authentication.login(user, password, address)

    def login_by_certificate(self, origin: Origin) -> Principal | None:
        """The principal of a client with a certificate; None if the login is refused."""
        return ANONYMOUS if self.authentication is None else self.authentication.login_by_certificate(origin)

    def close_outdated(self) -> None:
        """Close the connections of users that may not be logged in any more: the directory has changed."""
        authentication = self.authentication
        if authentication is None:
            return
        for connection in list(self.connections.registered):
            if connection.principal is not None and not authentication.may_go_on(connection.principal):
                connection.fail(StompError("Access refused", "the credentials of the user have changed\n", closes=True))
            else:
                connection.consumption.close_revoked()

    def new_id(self, size: int) -> str:
        """A random id of so many bytes."""
        return self._entropy.bytes(size).hex()

    def new_name(self) -> str:
        """The random part of a generated name."""
        return urlsafe_b64encode(self._entropy.bytes(NAME_BYTES)).decode().rstrip("=")

"""The logins of one connection, by password or by certificate, and the mechanisms that it offers."""

from __future__ import annotations

from typing import TYPE_CHECKING, final

from longhall.doors.amqp.errors import CONNECTION_FORCED, AmqpError
from longhall.doors.amqp.statistics import ConnectionOrigin
from longhall.errors import LonghallError
from longhall.front.identity import Principal

if TYPE_CHECKING:
    from longhall.doors.amqp.server import AmqpServer


@final
class ConnectionLogins:
    """What the handshake of a connection may ask of the door."""

    def __init__(self, server: AmqpServer, origin: ConnectionOrigin) -> None:
        self._server = server
        self._origin = origin

    def by_password(self, user: str, password: str) -> Principal | None:
        """The principal of a user; None if the login is refused."""
        try:
            return self._server.login(user, password, self._origin.peer)
        except LonghallError as error:  # The users are not known yet.
            raise AmqpError(CONNECTION_FORCED, str(error)) from None

    def by_certificate(self) -> tuple[str, Principal | None]:
        """The user of the client's certificate, and its principal; None if the login is refused."""
        client = self._origin.client
        try:
            return client.user if client is not None else "", self._server.login_by_certificate(client)
        except LonghallError as error:
            raise AmqpError(CONNECTION_FORCED, str(error)) from None

    @property
    def mechanisms(self) -> bytes:
        """The names of SASL mechanisms, as connection.start has them."""
        client = self._origin.client
        return b"PLAIN AMQPLAIN EXTERNAL" if client is not None and client.user else b"PLAIN AMQPLAIN"

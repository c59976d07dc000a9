"""The handshake of a connection: login and limits. The states are in `connection`; here are start, tune and open."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Final, final

from longhall.cluster.rpc.operation import Caller
from longhall.doors.amqp import errors
from longhall.doors.amqp.errors import AmqpError
from longhall.doors.amqp.wire import methods
from longhall.doors.amqp.wire.frames import method_frame
from longhall.doors.amqp.wire.methods import METHODS, Arguments
from longhall.exchanges.field_table import MalformedTable, decode_table
from longhall.front.identity import Principal, caller_of
from longhall.front.origins import Origin

FRAME_MAX: Final = 131_072
FRAME_MIN: Final = 4096
CHANNELS_MAX: Final = 2047
HEARTBEAT_S: Final = 60

Login = Callable[[str, str], Principal | None]
PrepareLogin = Callable[[str, str], Awaitable[None]]
CertificateLogin = Callable[[], tuple[str, Principal | None]]  # The user that a certificate names, and its principal.


@final
class Handshake:
    """What client and server agree on before the connection is open."""

    def __init__(self, login: Login, login_by_certificate: CertificateLogin, prepare_login: PrepareLogin) -> None:
        """`prepare_login` does the slow part of a login with a password."""
        self.state = "header"
        self.user = ""
        self.principal: Principal | None = None  # Until the login.
        self.mechanism = ""
        self.client_properties: dict[str, Any] = {}
        self.capabilities: dict[str, Any] = {}
        self.frame_max = FRAME_MAX
        self.channel_max = CHANNELS_MAX
        self.heartbeat_s = 0
        self._login = login
        self._login_by_certificate = login_by_certificate
        self._prepare_login = prepare_login

    @property
    def waits(self) -> bool:
        """True while a frame of the client waits for its answer, and those behind it wait for that."""
        return self.state in ("login", "opening")

    def begin(self, properties: bytes, client: Origin | None) -> bytes:
        """The frame that begins it. EXTERNAL is offered to clients whose certificate names a user."""
        self.state = "start"
        mechanisms = b"PLAIN AMQPLAIN EXTERNAL" if client is not None and client.user else b"PLAIN AMQPLAIN"
        return method_frame(0, methods.CONNECTION_START, 0, 9, properties, mechanisms, b"en_US")

    async def prepare(self, arguments: Arguments) -> None:
        """Do the slow part of a login, before `take` gets connection.start_ok. AmqpError if too many logins wait."""
        _, mechanism, response, _ = arguments
        login = _password_login(mechanism, response)
        if login is not None:
            await self._prepare_login(*login)

    async def prepare_update(self, secret: bytes) -> None:
        """The same for `update`."""
        await self._prepare_login(self.user, secret.decode(errors="replace"))

    def take(self, method: int, arguments: Arguments) -> bytes:
        """Take a method of the handshake; returns the frame that answers it."""
        if self.state == "start" and method == methods.CONNECTION_START_OK:
            self._start(arguments)
            self.state = "tune"
            return method_frame(0, methods.CONNECTION_TUNE, CHANNELS_MAX, FRAME_MAX, HEARTBEAT_S)
        if self.state == "tune" and method == methods.CONNECTION_TUNE_OK:
            self._tune(*arguments)
            self.state = "open"
            return b""
        name = METHODS[method].name
        raise AmqpError(errors.COMMAND_INVALID, f"'{name}' is not expected in the state '{self.state}'", method)

    def caller(self, address: str, is_tls: bool) -> Caller:
        """The client, after its login."""
        assert self.principal is not None
        return caller_of(self.principal.shown_as(self.user), address, is_tls, door="amqp")

    def tells(self, error: AmqpError) -> bool:
        """True if the client understands an error before the connection is open."""
        if error.reply != errors.ACCESS_REFUSED:
            return self.state != "header"
        return self.capabilities.get("authentication_failure_close") is True

    def update(self, secret: bytes) -> bool:
        """Check a new secret of the same user."""
        principal = self._login(self.user, secret.decode(errors="replace"))
        if principal is None or self.principal is None or not principal.is_same(self.principal):
            return False
        self.principal = principal  # A newer token ends later.
        return True

    def _start(self, arguments: Arguments) -> None:
        properties, mechanism, response, _ = arguments
        self.client_properties = decode_table(properties)[0]
        capabilities = self.client_properties.get("capabilities")
        self.capabilities = capabilities if isinstance(capabilities, dict) else {}
        login = _password_login(mechanism, response)
        if login is not None:
            user, principal = login[0], self._login(*login)
        elif mechanism == "EXTERNAL":
            user, principal = self._login_by_certificate()
        else:
            raise AmqpError(errors.COMMAND_INVALID, f"unknown authentication mechanism '{mechanism}'")
        if principal is None:
            text = f"Login was refused using authentication mechanism {mechanism}. For details see the broker logfile."
            raise AmqpError(errors.ACCESS_REFUSED, text)
        self.user = user
        self.principal = principal
        self.mechanism = mechanism

    def _tune(self, channel_max: int, frame_max: int, heartbeat_s: int) -> None:
        if 0 < frame_max < FRAME_MIN:
            text = f"negotiated frame_max = {frame_max} is lower than the minimum allowed value ({FRAME_MIN})"
            raise AmqpError(errors.NOT_ALLOWED, text, methods.CONNECTION_TUNE_OK)
        if frame_max > FRAME_MAX:
            text = f"negotiated frame_max = {frame_max} is higher than the maximum allowed value ({FRAME_MAX})"
            raise AmqpError(errors.NOT_ALLOWED, text, methods.CONNECTION_TUNE_OK)
        if channel_max > CHANNELS_MAX:
            text = f"negotiated channel_max = {channel_max} is higher than the maximum allowed value ({CHANNELS_MAX})"
            raise AmqpError(errors.NOT_ALLOWED, text, methods.CONNECTION_TUNE_OK)
        self.frame_max = frame_max or FRAME_MAX
        self.channel_max = channel_max or CHANNELS_MAX
        self.heartbeat_s = heartbeat_s


def _password_login(mechanism: str, response: bytes) -> tuple[str, str] | None:
    """The user and the password that a client shows; None with a mechanism without passwords."""
    if mechanism == "AMQPLAIN":
        return _amqplain(response)
    if mechanism != "PLAIN":
        return None
    parts = response.split(b"\0")
    if len(parts) != 3:
        raise AmqpError(errors.SYNTAX_ERROR, "the response of PLAIN is malformed")
    return parts[1].decode(errors="replace"), parts[2].decode(errors="replace")


def _amqplain(response: bytes) -> tuple[str, str]:
    try:
        table = decode_table(len(response).to_bytes(4, "big") + response)[0]
    except MalformedTable:
        raise AmqpError(errors.SYNTAX_ERROR, "the response of AMQPLAIN is malformed") from None
    user, password = table.get("LOGIN"), table.get("PASSWORD")
    if not isinstance(user, str) or not isinstance(password, str):
        raise AmqpError(errors.SYNTAX_ERROR, "AMQPLAIN needs LOGIN and PASSWORD")
    return user, password

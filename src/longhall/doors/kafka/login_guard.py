"""The guard of the Kafka door: which requests a connection may send before it has authenticated.

Kafka's rule: ApiVersions, SaslHandshake and SaslAuthenticate. A client whose certificate names a user has authenticated
by it, unless it chooses SASL. `sasl` has the states of a connection. The guard is
asked for the first requests of a connection only, and again when its session has ended.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Final, final

from longhall.doors.kafka.request_tasks import start
from longhall.doors.kafka.sasl import AUTHENTICATED, FAILURE_DELAY_S, RAW, SaslSession, SaslStep
from longhall.doors.kafka.wire.headers import API_VERSIONS, RequestHeader, decode_request_header
from longhall.errors import LonghallError
from longhall.front.authenticator import DoorAuthentication
from longhall.front.identity import Principal
from longhall.world.ports import Entropy

if TYPE_CHECKING:
    from longhall.doors.kafka.connection import Call, Connection

SASL_HANDSHAKE: Final = 17
SASL_AUTHENTICATE: Final = 36
BEFORE_LOGIN: Final = frozenset((API_VERSIONS, SASL_HANDSHAKE, SASL_AUTHENTICATE))
REQUESTS_MAX: Final = 20  # Before a login; more are a client that does not mean to log in.
WRITE_S: Final = 0.05  # Between the answer of a failure and the close.

_log = logging.getLogger("longhall.kafka")


@final
class LoginGuard:
    """Authentication at the Kafka door."""

    def __init__(self, logins: DoorAuthentication, entropy: Entropy, lifetime_ms: int = 0) -> None:
        self._logins = logins
        self._entropy = entropy
        self._lifetime_ms = lifetime_ms

    def may_go_on(self, principal: Principal) -> bool:
        """True if an open connection of this client may stay."""
        return self._logins.may_go_on(principal)

    def admit(self, connection: Connection, frame: bytes) -> bool:
        """True if a request is to be served; else the connection is closed, or the frame was a token."""
        session = connection.sasl
        if session is None:
            session = connection.sasl = SaslSession(self._logins, self._entropy, connection.peer, self._lifetime_ms)
        if session.state == RAW:
            self._take_token(connection, session, frame)
            return False
        api_key = decode_request_header(frame).api_key
        if api_key in BEFORE_LOGIN:
            if connection.requests <= REQUESTS_MAX or session.state == AUTHENTICATED:
                return True
        elif session.state != AUTHENTICATED and self._admit_unasked(connection):
            return True
        _log.info("a client must authenticate first", extra={"peer": connection.peer, "api": api_key})
        connection.close()
        return False

    def _admit_unasked(self, connection: Connection) -> bool:
        """Clear a client that need not authenticate any more: by its certificate, or because nobody needs to."""
        principal = self._logins.of_certificate(connection.origin)
        if principal is not None:
            connection.principal = principal
        elif self._logins.required:
            return False
        connection.is_cleared = True
        return True

    def _take_token(self, connection: Connection, session: SaslSession, frame: bytes) -> None:
        """A token without a header, after a handshake of version 0."""
        from longhall.doors.kafka.connection import Call

        loop = asyncio.get_running_loop()
        call = Call(connection, RequestHeader(SASL_AUTHENTICATE, 0, 0, None, 0), frame, loop.time())
        connection.begin(call)
        connection.hold_back()  # The frame behind it is a request if the login succeeds, else nothing.
        start(call, _answer_token(call, session, frame))


async def _answer_token(call: Call, session: SaslSession, token: bytes) -> None:
    connection, loop = call.connection, asyncio.get_running_loop()
    try:
        await session.prepare(token)
        step = session.step(token, loop.time())
        if step.error:
            connection.stop_reading()
            loop.call_later(FAILURE_DELAY_S, connection.close)
            return
        clear(connection, session)
        call.ready([len(step.token).to_bytes(4, "big") + step.token])
    except LonghallError:  # The users are not known yet, or too many logins wait.
        connection.close()
    finally:
        connection.let_go()


def clear(connection: Connection, session: SaslSession) -> None:
    """Serve the requests of a connection, if its client has authenticated."""
    if session.state == AUTHENTICATED:
        connection.principal = session.principal
        connection.cleared_until_s = session.ends_s
        connection.is_cleared = True


async def take_step(call: Call, token: bytes) -> SaslStep:
    """The answer to a step of an exchange. After a failure it comes late, and the connection is closed."""
    connection, session = call.connection, call.connection.sasl
    assert session is not None, "the guard has made it"
    loop = asyncio.get_running_loop()
    try:
        await session.prepare(token)
        step = session.step(token, loop.time())
    except LonghallError:
        connection.close()
        raise
    if step.error:
        connection.stop_reading()
        await asyncio.sleep(FAILURE_DELAY_S)
        loop.call_later(WRITE_S, connection.close)
        return step
    clear(connection, session)
    return step

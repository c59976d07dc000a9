"""SaslHandshake: the client names a mechanism."""

from __future__ import annotations

import asyncio

from longhall.doors.kafka.connection import Call
from longhall.doors.kafka.door import Door
from longhall.doors.kafka.login_guard import WRITE_S
from longhall.doors.kafka.sasl import OFFERED, RAW
from longhall.doors.kafka.wire.error_codes import ErrorCode
from longhall.doors.kafka.wire.messages.sasl import SaslHandshakeRequest, SaslHandshakeResponse


def handle(door: Door, request: SaslHandshakeRequest, call: Call) -> SaslHandshakeResponse:
    session = call.connection.sasl
    # Without a session the connection began with another request, and is anonymous.
    error = (
        session.handshake(request.mechanism, call.header.version)
        if session is not None
        else ErrorCode.ILLEGAL_SASL_STATE
    )
    if session is not None and session.state == RAW:
        call.connection.is_cleared = False  # The guard takes the tokens.
    if error == ErrorCode.ILLEGAL_SASL_STATE and not call.connection.is_cleared:
        call.connection.stop_reading()
        asyncio.get_running_loop().call_later(WRITE_S, call.connection.close)
    return SaslHandshakeResponse(error_code=error, mechanisms=list(session.offered if session is not None else OFFERED))

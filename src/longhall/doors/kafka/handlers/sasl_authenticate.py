"""SaslAuthenticate: one step of the exchange that the handshake has begun."""

from __future__ import annotations

from longhall.doors.kafka.connection import Call
from longhall.doors.kafka.door import Door
from longhall.doors.kafka.login_guard import take_step
from longhall.doors.kafka.wire.error_codes import ErrorCode
from longhall.doors.kafka.wire.messages.sasl import SaslAuthenticateRequest, SaslAuthenticateResponse


async def handle(door: Door, request: SaslAuthenticateRequest, call: Call) -> SaslAuthenticateResponse:
    if call.connection.sasl is None:
        return SaslAuthenticateResponse(
            error_code=ErrorCode.ILLEGAL_SASL_STATE, error_message="there was no SaslHandshake"
        )
    step = await take_step(call, request.auth_bytes)
    return SaslAuthenticateResponse(
        error_code=step.error,
        error_message=step.reason,
        auth_bytes=step.token,
        session_lifetime_ms=step.lifetime_ms,
    )

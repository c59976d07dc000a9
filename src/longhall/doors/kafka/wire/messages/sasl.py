"""Authentication by SASL."""

from __future__ import annotations

from longhall.doors.kafka.wire.schema import Message, array, data, int16, int64, string


class SaslHandshakeRequest(Message):
    """Names the mechanism."""

    mechanism: str = string("0+")


class SaslHandshakeResponse(Message):
    """The mechanisms that are offered."""

    error_code: int = int16("0+")
    mechanisms: list[str] = array("0+", "string")


class SaslAuthenticateRequest(Message, flexible=2):
    """One step of the mechanism's own dialogue."""

    auth_bytes: bytes = data("0+")


class SaslAuthenticateResponse(Message, flexible=2):
    """The other side's step."""

    error_code: int = int16("0+")
    error_message: str | None = string("0+", null="0+", default=None)
    auth_bytes: bytes = data("0+")
    session_lifetime_ms: int = int64("1+")

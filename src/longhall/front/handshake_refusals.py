"""Connections that do not reach their door: reasons, counts, log lines, and answers to their clients.

Log lines are rate limited by door and reason, so that strangers cannot fill the log. Nothing here reads a socket.
"""

from __future__ import annotations

import logging
import ssl
from typing import Final, final

LOG_APART_S: Final = 10.0  # Between two log lines about one reason at one door.
TLS_FIRST_BYTE: Final = 0x16  # A handshake record.

NO_TLS: Final = "no TLS"
HANDSHAKE: Final = "TLS handshake failed"
SILENT: Final = "handshake timeout"
CROWD: Final = "too many handshakes"
PROXY: Final = "PROXY header"
NO_USER: Final = "certificate without user"
TLS_AT_CLEAR: Final = "TLS at a port without it"
REASONS: Final = (NO_TLS, HANDSHAKE, SILENT, CROWD, PROXY, NO_USER, TLS_AT_CLEAR)

_log = logging.getLogger("longhall.connections")
_tls_at_clear: dict[str, NotAdmittedCount] = {}  # By door.


class NotAdmitted(Exception):
    """A connection that does not reach its door."""

    def __init__(self, reason: str, detail: str = "") -> None:
        super().__init__(detail or reason)
        self.reason = reason


@final
class NotAdmittedCount:
    """Connections of one door that did not reach it, by reason; log lines are rate limited."""

    def __init__(self, door: str) -> None:
        self.door = door
        self.counts = dict.fromkeys(REASONS, 0)
        self._logged: dict[str, tuple[float, int]] = {}

    def note(self, error: NotAdmitted, peer: str, now_s: float) -> None:
        """Count a connection."""
        reason = error.reason
        self.counts[reason] += 1
        logged_s, logged = self._logged.get(reason, (-LOG_APART_S, 0))
        if now_s - logged_s >= LOG_APART_S:
            told = {"door": self.door, "peer": peer, "reason": str(error), "times": self.counts[reason] - logged}
            _log.warning(f"a connection did not reach its door: {reason}", extra=told)
            self._logged[reason] = (now_s, self.counts[reason])


def guess_protocol(data: bytes) -> str:
    """The protocol whose clients begin with these bytes, for a log line."""
    if data[:4] == b"AMQP":
        return "AMQP"
    if data[:7] in (b"CONNECT", b"STOMP\n", b"STOMP\r\n") or data[:5] == b"STOMP":
        return "STOMP"
    if data.split(b" ", 1)[0] in (b"GET", b"HEAD", b"POST", b"PUT", b"DELETE", b"PATCH", b"OPTIONS"):
        return "HTTP"
    return "a protocol"


def clear_refusal(data: bytes) -> bytes:
    """The answer to a client without TLS at a port that needs it; empty if its protocol has none."""
    protocol = guess_protocol(data)
    if protocol == "HTTP":
        body = b"This port speaks HTTPS: begin the address with https://\n"
        head = f"HTTP/1.1 400 Bad Request\r\nContent-Type: text/plain\r\nContent-Length: {len(body)}\r\n"
        return head.encode() + b"Connection: close\r\n\r\n" + body
    if protocol == "STOMP":
        return b"ERROR\nmessage:this port speaks TLS\ncontent-type:text/plain\n\nConnect with TLS.\x00"
    return b""


def looks_like_tls(data: bytes | bytearray | memoryview) -> bool:
    """True if a client at a port without TLS begins a handshake."""
    return len(data) >= 3 and data[0] == TLS_FIRST_BYTE and data[1] == 3 and data[2] <= 4


def note_tls(door: str, peer: str, data: bytes | bytearray | memoryview, now_s: float) -> None:
    """Log that a client begins TLS at a door without it, if these first bytes show that."""
    if looks_like_tls(data):
        count = _tls_at_clear.setdefault(door, NotAdmittedCount(door))
        count.note(NotAdmitted(TLS_AT_CLEAR, "the client begins TLS, and this port has none"), peer, now_s)


def handshake_failure(error: ssl.SSLError) -> str:
    """A failed handshake in words, with what to do about it where that is known."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"the client's certificate is not accepted: {error.verify_message}"
    reason = str(error.reason or error)
    known = {
        "PEER_DID_NOT_RETURN_A_CERTIFICATE": "the client has no certificate, and tls.client_authentication needs one",
        "NO_SHARED_CIPHER": "client and node have no cipher in common",
        "UNSUPPORTED_PROTOCOL": "the client offers only old versions of TLS",
        "TLSV1_ALERT_UNKNOWN_CA": "the client does not know the authority of this node's certificate",
        "SSLV3_ALERT_CERTIFICATE_UNKNOWN": "the client does not accept this node's certificate",
        "SSLV3_ALERT_BAD_CERTIFICATE": "the client does not accept this node's certificate",
    }
    return known.get(reason, reason.lower().replace("_", " "))

"""The origin of a connection: the address, TLS and certificate of a client, before its protocol begins.

A connection that came through TLS or a balancer has an `Origin`, which its transport gives to the door under the name
"origin". A connection without one came directly and in clear text.
"""

from __future__ import annotations

import asyncio
from typing import Any, Final, NamedTuple, final

from longhall.front.certificate_names import CertificateNames

ORIGIN: Final = "origin"


class Origin(NamedTuple):
    """The address of the client itself, and what its certificate proves."""

    address: str
    port: int
    is_tls: bool = False  # The client speaks TLS, with this process or with a trusted balancer.
    user: str = ""  # The user that a verified certificate names; empty without one.
    names: CertificateNames | None = None  # Of the verified certificate.
    proxy: str = ""  # The address of the balancer that introduced the client.
    tls_version: str = ""  # "TLSv1.3"; empty if a balancer ended TLS.
    cipher: str = ""


def origin_of(transport: asyncio.BaseTransport) -> Origin | None:
    """The origin of a connection; None if it came directly and in clear text."""
    found = transport.get_extra_info(ORIGIN)
    return found if isinstance(found, Origin) else None


def client_address(transport: asyncio.BaseTransport) -> str:
    """The address of a client; empty if the transport does not know it."""
    name = transport.get_extra_info("peername")
    return str(name[0] if isinstance(name, tuple) else name or "")


@final
class IntroducedTransport(asyncio.Transport):
    """The transport below, with the client's own address and its origin. Its methods are those of the transport below,
    without a call between, so that a write costs no more than there.
    """

    def __init__(self, below: asyncio.Transport, origin: Origin) -> None:
        super().__init__()
        self._below = below
        self._origin = origin
        for name in _PASSED:
            setattr(self, name, getattr(below, name))

    def write_eof(self) -> None:
        """Send the end. TLS has no half-closed connections: there its end is sent, and what comes until the client
        ends too is dropped.
        """
        if self._below.can_write_eof():
            self._below.write_eof()
        else:
            self._below.close()

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        if name == "peername":
            return self._origin.address, self._origin.port
        return self._origin if name == ORIGIN else self._below.get_extra_info(name, default)


_PASSED: Final = (
    "write",
    "writelines",
    "can_write_eof",
    "close",
    "abort",
    "is_closing",
    "is_reading",
    "pause_reading",
    "resume_reading",
    "set_protocol",
    "get_protocol",
    "set_write_buffer_limits",
    "get_write_buffer_limits",
    "get_write_buffer_size",
)

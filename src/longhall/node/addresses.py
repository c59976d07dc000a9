"""Where a door listens: host and port, written HOST:PORT or [HOST]:PORT.

Names are never resolved here: a host that is not clearly loopback counts as reachable from other machines, which is the
safe assumption.
"""

from __future__ import annotations

import ipaddress
from typing import Final, NamedTuple

# Settings and ready file name them so.
DOORS: Final = ("kafka", "sqs", "amqp", "stomp", "stomp_websocket", "management", "prometheus", "http")
LISTEN_EXAMPLE: Final = "127.0.0.1:9092 (port 0 takes a free one)"
SHARED_DOORS: Final = DOORS[1:]  # All workers of a node listen at the same address; each has a Kafka port of its own.

_EVERYWHERE = ("0.0.0.0", "::")


class Address(NamedTuple):
    """An address to listen at or to connect to."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    @property
    def is_loopback(self) -> bool:
        """True if only this machine can reach it."""
        if self.host == "localhost":
            return True
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return False

    @property
    def is_everywhere(self) -> bool:
        """True if it stands for every address of the machine: valid to listen at, not to connect to."""
        return self.host in _EVERYWHERE


def parse_address(text: str, example: str = LISTEN_EXAMPLE) -> Address:
    """Parse an address. Raises ValueError with an example of a valid one."""
    host, colon, digits = text.strip().rpartition(":")
    if host.startswith("[") and host.endswith("]"):
        host = host[1:-1]
    elif ":" in host:
        raise ValueError(f"{text!r}: write an IPv6 address in brackets, like [::1]:9092")
    if not colon or not host or not (digits.isascii() and digits.isdigit()) or int(digits) > 65_535:
        raise ValueError(f"{text!r} is not an address; write HOST:PORT, like {example}")
    return Address(host, int(digits))

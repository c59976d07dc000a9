"""Where a door listens: host and port, written HOST:PORT or [HOST]:PORT.

Names are never looked up here: a host that is not plainly loopback counts as reachable by others, which is the safe
side to be wrong on.
"""

from __future__ import annotations

import ipaddress
from typing import NamedTuple

_EVERYWHERE = ("0.0.0.0", "::")


class Address(NamedTuple):
    """One place to listen at or to connect to."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    @property
    def is_loopback(self) -> bool:
        """Whether only this machine can reach it."""
        if self.host == "localhost":
            return True
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return False

    @property
    def is_everywhere(self) -> bool:
        """Whether it means every address of the machine, which is good to listen at and impossible to connect to."""
        return self.host in _EVERYWHERE


def parse_address(text: str) -> Address:
    """Raises ValueError with a sentence that shows what would have been understood."""
    host, colon, digits = text.strip().rpartition(":")
    if host.startswith("[") and host.endswith("]"):
        host = host[1:-1]
    elif ":" in host:
        raise ValueError(f"{text!r}: write an IPv6 address in brackets, like [::1]:9092")
    if not colon or not host or not (digits.isascii() and digits.isdigit()) or int(digits) > 65_535:
        raise ValueError(f"{text!r} is not an address; write HOST:PORT, like 127.0.0.1:9092 (port 0 takes a free one)")
    return Address(host, int(digits))

"""Refusal of requests that web pages make a browser send to a door without authentication.

Only this machine can reach such a door, but a browser on it runs pages of other sites. Their requests are recognizable:
the browser adds an `Origin` header or says that the request is cross-site, and after DNS rebinding the `Host` header
has a name that local programs do not use. SDKs and command lines send none of these.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping
from typing import Final

from longhall.doors.sqs.wire.faults import ACCESS_DENIED, SqsError

# Host names that no outside site can own: names of one word, and names under these.
_OURS: Final = (".localhost", ".local", ".internal", ".test")


def refuse_pages(headers: Mapping[bytes, bytes], on_loopback: bool) -> None:
    """Raises SqsError for a request of a web page. The `Host` header is checked only on loopback."""
    if b"origin" in headers or headers.get(b"sec-fetch-site", b"none") != b"none":
        raise from_page()
    if on_loopback and not _is_our_name(headers.get(b"host", b"").decode("latin-1")):
        raise from_page()


def is_loopback(host: str) -> bool:
    """True if only programs of this machine can reach this host."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def from_page() -> SqsError:
    """The error for a request of a web page."""
    said = "Pages may not ask here. If this is no page: call the door by an address, or give it a file of credentials."
    return SqsError(ACCESS_DENIED, said)


def _is_our_name(host: str) -> bool:
    name = host.rpartition(":")[0] if host.rpartition(":")[2].isdigit() else host
    name = name.strip("[]").rstrip(".").lower()
    if "." not in name or name.endswith(_OURS):
        return True
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True

"""Requests that the page of some site makes a browser send to a door that asks nobody who they are.

Only this machine may reach such a door, but a browser here runs pages of strangers. It tells on them: what a page sends
has an origin, or says that it comes from elsewhere; and a name of the page's own that was bent to this machine is no
name by which programs here call it. SDKs and command lines send nothing of the kind.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping
from typing import Final

from longhall.doors.sqs.wire.faults import ACCESS_DENIED, SqsError

# Names that no stranger can have: those of one word, and those under these.
_OURS: Final = (".localhost", ".local", ".internal", ".test")


def refuse_pages(headers: Mapping[bytes, bytes], on_loopback: bool) -> None:
    """Raises SqsError for what a page made a browser send. Only a door on loopback knows all the names it may have."""
    if b"origin" in headers or headers.get(b"sec-fetch-site", b"none") != b"none":
        raise from_page()
    if on_loopback and not _is_our_name(headers.get(b"host", b"").decode("latin-1")):
        raise from_page()


def is_loopback(host: str) -> bool:
    """Whether only programs of this machine reach what listens there."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def from_page() -> SqsError:
    """The refusal."""
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

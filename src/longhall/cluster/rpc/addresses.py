"""Where other processes listen, as they describe themselves to the coordinator."""

from __future__ import annotations

from collections.abc import Mapping


def addresses_of(members: Mapping[int, str]) -> dict[int, tuple[str, int]]:
    """Where nodes listen for each other."""
    found: dict[int, tuple[str, int]] = {}
    for node, address in members.items():
        host, _, port = address.rpartition(":")
        if host:
            found[node] = (host.strip("[]"), int(port))
    return found

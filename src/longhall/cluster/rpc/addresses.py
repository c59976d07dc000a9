"""The addresses of other processes, from their descriptions at the coordinator."""

from __future__ import annotations

from collections.abc import Mapping


def addresses_of(members: Mapping[int, str]) -> dict[int, tuple[str, int]]:
    """The peer addresses of nodes, parsed; a node without one is left out."""
    found: dict[int, tuple[str, int]] = {}
    for node, address in members.items():
        host, _, port = address.rpartition(":")
        if host:
            found[node] = (host.strip("[]"), int(port))
    return found

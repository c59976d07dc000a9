"""Names of hosts, ports of their nodes, and the cluster secret."""

from __future__ import annotations

from typing import Final

from longhall.cluster.rpc.authentication import Secrets

PEERS_PORT: Final = 7000
SECRETS: Final = Secrets([b"of all simulated clusters, 32 long"])


def name_of(node: int) -> str:
    """The name of a node's host."""
    return f"n{node}"


def numbers_up_to(count: int) -> list[int]:
    """The numbers of so many nodes."""
    return list(range(1, count + 1))

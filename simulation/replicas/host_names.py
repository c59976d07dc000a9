"""How hosts are called, where their nodes meet, and the secret that these share."""

from __future__ import annotations

from typing import Final

from longhall.cluster.rpc.authentication import Secrets

PEERS_PORT: Final = 7000
SECRETS: Final = Secrets([b"of all simulated clusters, 32 long"])


def name_of(node: int) -> str:
    """The host of a node."""
    return f"n{node}"


def numbers_up_to(count: int) -> list[int]:
    """Of so many nodes."""
    return list(range(1, count + 1))

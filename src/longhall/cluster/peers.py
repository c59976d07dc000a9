"""Connections between the nodes of a hall: one listener a node, a connection for each purpose, frames on it.

Every connection begins with a greeting (version, hall, node, incarnation, purpose); who is of another hall or speaks
another version is refused. Requests and answers of the rest of the cluster (`request`, `serve`) have connections of
their own, so that they never wait behind the log.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import final

from longhall.world.ports import World

Handler = Callable[[int, bytes], Awaitable[bytes]]  # From which node, what; returns the answer.


@final
class Peers:
    """See the module."""

    def __init__(self, world: World, hall_id: str, node: int, incarnation: int) -> None:
        self.node = node
        self.incarnation = incarnation
        self.addresses: dict[int, tuple[str, int]] = {}  # Where the other nodes listen; the assembly keeps it fresh.

    async def open(self, host: str, port: int) -> int:
        """Listen; returns the port."""
        raise NotImplementedError

    def serve(self, verb: str, handler: Handler) -> None:
        """Answer requests of this name. A LonghallError of the handler arrives at the caller as it is."""
        raise NotImplementedError

    async def request(self, node: int, verb: str, body: bytes, timeout_s: float) -> bytes:
        """Ask another node. OSError when it cannot be reached, TimeoutError when it does not answer in time: whether it
        did what was asked is unknown then. LonghallError(OVERLOADED) when too much is under way to it already.
        """
        raise NotImplementedError

    async def close(self) -> None:
        """Close the listener and every connection."""
        raise NotImplementedError

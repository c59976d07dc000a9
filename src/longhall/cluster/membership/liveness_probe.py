"""The failure detector: a node whose machine refuses connections where it used to listen is dead.

A node that is silent may be slow or cut off, and its session decides. Several refusals in a row are needed, because a
node that restarts is away for a moment.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Final, final

from longhall.cluster.rpc.peers import Peers
from longhall.world.ports import Network

REFUSED_MAX: Final = 2  # Refused probes in a row, before a node counts as dead.
PROBE_S_MAX: Final = 0.5


@final
class LivenessProbe:
    """The probes of one node, with the refusals in a row of every other node."""

    def __init__(self, network: Network, peers: Peers) -> None:
        self._network = network
        self._peers = peers
        self.reached: frozenset[int] = frozenset()  # The nodes that accepted the last probe.
        self._refusals: dict[int, int] = {}  # By node: refused probes in a row.

    async def probe(self, nodes: Iterable[int]) -> tuple[frozenset[int], bool]:
        """Probe all of them once. Returns the dead nodes, and whether any refused and should be probed again soon."""
        asked = list(nodes)
        answers = await asyncio.gather(*(self._probe(node) for node in asked))
        refused = [answer is False for answer in answers]
        for node, is_refused in zip(asked, refused, strict=True):
            self._refusals[node] = self._refusals.get(node, 0) + 1 if is_refused else 0
        self.reached = frozenset(node for node, answer in zip(asked, answers, strict=True) if answer)
        return frozenset(node for node in asked if self._refusals[node] >= REFUSED_MAX), any(refused)

    async def _probe(self, node: int) -> bool | None:
        """True if the node listens, False if its machine refuses, None if there is no answer."""
        address = self._peers.addresses.get(node)
        if address is None:
            return None
        try:
            async with asyncio.timeout(PROBE_S_MAX):
                connection = await self._network.connect(_ProbeConnection, *address)
        except ConnectionRefusedError:
            return False
        except (OSError, TimeoutError):
            return None
        assert isinstance(connection, _ProbeConnection)
        connection.abort()
        return True


class _ProbeConnection(asyncio.Protocol):
    """A connection that is closed as soon as it is open."""

    def __init__(self) -> None:
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport  # type: ignore[assignment]

    def abort(self) -> None:
        if self._transport is not None:
            self._transport.abort()

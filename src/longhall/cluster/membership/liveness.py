"""Liveness: whether other nodes answer now, whatever the coordinator says of their sessions.

A registration outlives its process by a session time-out. So a status page asks each registered node over the peers
port:

    it answers                     True
    its machine refuses            False: no process listens there
    anything else within the time  None: it may hang, or be cut off

The answers are cached for a moment, so that several readers cost one probe.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from typing import Final, final

from longhall.cluster.rpc.peers import Peers
from longhall.errors import LonghallError

ALIVE: Final = "alive"
PROBE_S_MAX: Final = 1.0
CACHED_S: Final = 1.0


@final
class Liveness:
    """The liveness of the other nodes, as one node sees it. It answers the probes of other nodes as well."""

    def __init__(self, peers: Peers) -> None:
        self._peers = peers
        self._known: dict[int, tuple[float, bool | None]] = {}  # When the node was asked, and the answer.
        self._loop = asyncio.get_running_loop()
        peers.serve(ALIVE, _answer)

    async def probe(self, nodes: Iterable[int]) -> Mapping[int, bool | None]:
        """The nodes of these that are alive. Takes `PROBE_S_MAX` at most."""
        asked = list(nodes)
        found = await asyncio.gather(*(self._probe(node) for node in asked))
        return dict(zip(asked, found, strict=True))

    async def _probe(self, node: int) -> bool | None:
        if node == self._peers.node:
            return True
        known = self._known.get(node)
        if known is not None and self._loop.time() - known[0] < CACHED_S:
            return known[1]
        alive = await self._ask(node)
        self._known[node] = (self._loop.time(), alive)
        return alive

    async def _ask(self, node: int) -> bool | None:
        try:
            await self._peers.request(node, ALIVE, b"", PROBE_S_MAX)
        except LonghallError:
            return True  # A live node of an earlier version, which does not know the request.
        except ConnectionRefusedError:
            return False
        except (OSError, TimeoutError):
            return None
        return True


async def _answer(node: int, asked: bytes) -> bytes:
    return b""

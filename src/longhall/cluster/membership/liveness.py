"""Liveness probe: whether other nodes answer now, whatever the coordinator still says of their sessions.

A registration outlives its process by a session time-out. So whoever shows who is alive asks each registered node over
the peers port:

    it answers                     True
    its machine refuses            False: nobody listens there
    anything else within the time  None: it may hang, or be cut off

The answers are kept for a moment, so that several readers cost one probe.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from typing import Final, final

from longhall.cluster.rpc.peers import Peers
from longhall.errors import LonghallError

ALIVE: Final = "alive"
PROBE_S_MAX: Final = 1.0
KEPT_S: Final = 1.0


@final
class Liveness:
    """See the module. Answers the probes of other nodes as well."""

    def __init__(self, peers: Peers) -> None:
        self._peers = peers
        self._known: dict[int, tuple[float, bool | None]] = {}  # When it was asked, and what it said.
        self._loop = asyncio.get_running_loop()
        peers.serve(ALIVE, _answer)

    async def probe(self, nodes: Iterable[int]) -> Mapping[int, bool | None]:
        """Which of these nodes are alive. Takes `PROBE_S_MAX` at most."""
        asked = list(nodes)
        found = await asyncio.gather(*(self._probe(node) for node in asked))
        return dict(zip(asked, found, strict=True))

    async def _probe(self, node: int) -> bool | None:
        if node == self._peers.node:
            return True
        known = self._known.get(node)
        if known is not None and self._loop.time() - known[0] < KEPT_S:
            return known[1]
        alive = await self._ask(node)
        self._known[node] = (self._loop.time(), alive)
        return alive

    async def _ask(self, node: int) -> bool | None:
        try:
            await self._peers.request(node, ALIVE, b"", PROBE_S_MAX)
        except LonghallError:
            return True  # It is there and does not know the question: an earlier version.
        except ConnectionRefusedError:
            return False
        except (OSError, TimeoutError):
            return None
        return True


async def _answer(node: int, asked: bytes) -> bytes:
    return b""

"""Who is dead for certain: a node whose machine refuses connections where it used to listen.

One that is merely silent may be slow or cut off, and its session decides. A refusal has to be heard several times in a
row: a node that starts again is away for a moment.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Final, final

from longhall.cluster.rpc.peers import Peers
from longhall.world.ports import Network

REFUSED_MAX: Final = 2  # Knocks that nobody answers in a row, before a node is taken for dead.
KNOCK_S_MAX: Final = 0.5


@final
class LivenessProbe:
    """See the module."""

    def __init__(self, network: Network, peers: Peers) -> None:
        self._network = network
        self._peers = peers
        self.reached: frozenset[int] = frozenset()  # Who took the last knock.
        self._refusals: dict[int, int] = {}  # By node: knocks in a row that nobody answered.

    async def knock(self, nodes: Iterable[int]) -> tuple[frozenset[int], bool]:
        """Knock at all of them once. Returns who is dead, and whether anybody refused and is worth another knock."""
        asked = list(nodes)
        answers = await asyncio.gather(*(self._knock(node) for node in asked))
        refused = [answer is False for answer in answers]
        for node, is_refused in zip(asked, refused, strict=True):
            self._refusals[node] = self._refusals.get(node, 0) + 1 if is_refused else 0
        self.reached = frozenset(node for node, answer in zip(asked, answers, strict=True) if answer)
        return frozenset(node for node in asked if self._refusals[node] >= REFUSED_MAX), any(refused)

    async def _knock(self, node: int) -> bool | None:
        """True if somebody listens there, False if the machine refuses, None if there is no answer."""
        address = self._peers.addresses.get(node)
        if address is None:
            return None
        try:
            async with asyncio.timeout(KNOCK_S_MAX):
                knock = await self._network.connect(_Knock, *address)
        except ConnectionRefusedError:
            return False
        except (OSError, TimeoutError):
            return None
        assert isinstance(knock, _Knock)
        knock.go()
        return True


class _Knock(asyncio.Protocol):
    """A connection that is closed as soon as it is there."""

    def __init__(self) -> None:
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport  # type: ignore[assignment]

    def go(self) -> None:
        if self._transport is not None:
            self._transport.abort()

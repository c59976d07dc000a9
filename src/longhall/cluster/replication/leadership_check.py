"""Whether this node still leads, asked of those who could lead in its place.

A leader that was deposed may not know it yet, and has not heard what was made since. What it does needs no question: it
is committed by everybody in sync, or not at all. But to say that something does not exist, or is there already, would
be final, and wrong. So before it says that, each of the others in sync tells which epoch it knows of: the next leader
is one of them, and knows its own epoch before it serves anybody. Those count too that this node has asked to have on
record as in sync, since it may not have heard yet that they are.

One question at a time, for all who wait; whoever comes meanwhile waits for the next.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from typing import Final, final

from longhall.broker.leadership import Leadership
from longhall.cluster.rpc.peers import Peers
from longhall.errors import Code, LonghallError
from longhall.names import CATALOGUE_SHARD

STILL: Final = "still-led"
ANSWER_S: Final = 1.0
CONFIRM_S_MAX: Final = 5.0
PAUSE_S: Final = 0.1
UNKNOWN: Final = -1  # An epoch, of a node that cannot say.


@final
class LeadershipCheck:
    """See the module. `epoch` is the newest that this node was told of, `electable` are the nodes that could lead."""

    def __init__(
        self,
        leadership: Leadership,
        peers: Peers,
        epoch: Callable[[], int],
        electable: Callable[[], Iterable[int]],
    ) -> None:
        self._leadership = leadership
        self._peers = peers
        self._epoch = epoch
        self._electable = electable
        self._loop = asyncio.get_running_loop()
        self._next: asyncio.Task[bool] | None = None
        self._asking: asyncio.Task[bool] | None = None
        peers.serve(STILL, self._answer)

    async def confirm(self) -> None:
        """Returns when this node led at a moment after it was asked, or leads no more and knows it.
        LonghallError(NOT_READY) if that cannot be found out.
        """
        until_s = self._loop.time() + CONFIRM_S_MAX
        while not await self._ask_together():
            if self._loop.time() > until_s:
                raise LonghallError(Code.NOT_READY, "it is not certain who leads the hall at the moment; try again")
            await asyncio.sleep(PAUSE_S)

    async def _answer(self, node: int, asked: bytes) -> bytes:
        return b"%d" % self._epoch()

    async def _ask_together(self) -> bool:
        if self._next is None:
            self._next = self._loop.create_task(self._ask_next(self._asking))
        return await asyncio.shield(self._next)

    async def _ask_next(self, before: asyncio.Task[bool] | None) -> bool:
        if before is not None:
            await asyncio.wait((before,))
        self._asking, self._next = self._next, None
        return await self._ask()

    async def _ask(self) -> bool:
        leadership = self._leadership
        if not leadership.leads(CATALOGUE_SHARD):
            return True
        epoch = leadership.epoch(CATALOGUE_SHARD)
        others = sorted(set(self._electable()) - {leadership.node})
        known = await asyncio.gather(*(self._epoch_of(node) for node in others))
        return not leadership.leads(CATALOGUE_SHARD) or all(0 <= one <= epoch for one in known)

    async def _epoch_of(self, node: int) -> int:
        try:
            return int(await self._peers.request(node, STILL, b"", ANSWER_S))
        except LonghallError:
            return 0  # It is there and does not know the question: an earlier version, which is believed to follow.
        except (OSError, TimeoutError, ValueError):
            return UNKNOWN

"""The read-index check: a leader asks the replicas that could lead in its place whether it still leads.

A deposed leader may not know yet that it was deposed, and lacks what was created since. Its writes need no check: the
replicas in sync commit them, or nothing does. But to answer that something does not exist, or exists already, would be
final, and wrong. So before such an answer every other replica in sync is asked for the newest epoch that it knows: the
next leader is one of them, and knows its own epoch before it serves clients. Replicas that this node has asked the
coordinator to record as in sync count too, because the record may have them already.

One check runs at a time, for all requests that wait; a request that comes meanwhile waits for the next check.
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
UNKNOWN: Final = -1  # The epoch of a node that does not answer.


@final
class LeadershipCheck:
    """The checks of one leader. `epoch` is the newest one that this node knows, `electable` the possible leaders."""

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
        """Return when this node led at some moment after the call, or when it knows that it leads no more.
        LonghallError(NOT_READY) if neither can be found out.
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
            return 0  # A live node of an earlier version, which does not know the request: it counts as a follower.
        except (OSError, TimeoutError, ValueError):
            return UNKNOWN

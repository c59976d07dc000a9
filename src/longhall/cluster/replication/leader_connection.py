"""The follower's side of a stream: find the leader, agree with it on a common log, then take what it pushes.

    dial -> follow -> agreed -> pushes and beats, each answered with what is synced here
      ^                 |
      +---- a moment ---+----- whenever the connection breaks, falls silent, or something does not fit

It ends when its member has another leader, another epoch, or must fetch everything anew.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Final, Protocol, final

from longhall.broker.background import BackgroundTasks
from longhall.cluster.rpc.link import Link
from longhall.cluster.rpc.peers import FOLLOW_PURPOSE, Peers
from longhall.cluster.rpc.wire import (
    AGREED,
    BEAT,
    FOLLOW,
    PUSH,
    REFUSAL,
    SYNCED,
    Agreed,
    Beat,
    Follow,
    Push,
    Synced,
    decode,
    decode_push,
    refusal_of,
)
from longhall.errors import Code, LonghallError

REST_S: Final = (0.05, 0.5)  # Before the next attempt, the first and the longest.

_log = logging.getLogger("longhall.replicate")


class ReplicationTarget(Protocol):
    """What the member does with what comes."""

    def follow(self) -> Follow:
        """What is here."""

    def agreed(self, agreed: Agreed) -> int:
        """Cut the log to where it agrees with the leader's; returns what is synced of that."""

    def take_push(self, push: Push) -> None:
        """Write the entries."""

    def take_beat(self, beat: Beat) -> int:
        """Hear what is committed; returns what is synced."""

    def refetch(self, reason: str) -> None:
        """The log here cannot be continued."""

    def refuse_leader(self, reason: str) -> None:
        """The leader lacks entries that were committed here."""

    def diverge(self, reason: str) -> None:
        """The state here is not the majority's."""


@final
class LeaderConnection:
    """See the module."""

    def __init__(
        self,
        taker: ReplicationTarget,
        peers: Peers,
        leader: int,
        epoch: int,
        silence_s: float,
        background: BackgroundTasks,
    ) -> None:
        self.leader = leader
        self.epoch = epoch
        self.is_connected = False
        self._taker = taker
        self._peers = peers
        self._silence_s = silence_s
        self._link: Link | None = None
        self._lost = asyncio.Event()
        self._heard = False
        self._agreed = False
        self._ended = False
        self._task = background.start("follow", self._run)

    def stop(self) -> None:
        """No more is taken and no more answered, from this moment on."""
        self._ended = True
        self._task.cancel()
        if self._link is not None:
            self._link.abort("the leader is another one")
            self._peers.forget(self._link)

    def synced(self, index: int) -> None:
        """Everything up to `index` is on the disk here: tell the leader."""
        if self._link is not None and self._agreed and not self._ended:
            self._link.send(SYNCED, Synced(epoch=self.epoch, index=index))

    async def _run(self) -> None:
        rest_s = REST_S[0]
        while not self._ended:
            try:
                link = await self._peers.dial(self.leader, FOLLOW_PURPOSE)
            except (OSError, TimeoutError) as error:
                _log.debug("the leader cannot be reached", extra={"leader": self.leader, "reason": str(error)})
            else:
                began = await self._live(link)
                if began:
                    rest_s = REST_S[0]
            await asyncio.sleep(rest_s)
            rest_s = min(rest_s * 2, REST_S[1])

    async def _live(self, link: Link) -> bool:
        """One connection to its end; whether the logs were agreed on."""
        self._link = link
        self._agreed = False
        self._lost.clear()
        link.on_frame = self._frame
        link.on_lost = self._lost.set
        try:
            link.send(FOLLOW, self._taker.follow())
            while link.is_open:
                self._heard = False
                try:
                    async with asyncio.timeout(self._silence_s):
                        await self._lost.wait()
                except TimeoutError:
                    if not self._heard:
                        link.abort("the leader is silent")
        finally:
            self._peers.forget(link)
            if self._link is link:
                self._link = None
            self.is_connected = False
        if link.why:
            _log.info("no longer connected to the leader", extra={"leader": self.leader, "reason": link.why})
        return self._agreed

    def _frame(self, kind: int, body: bytes) -> None:
        if self._ended:
            return
        self._heard = True
        if kind == PUSH and self._agreed:
            push = decode_push(body)
            self._check(push.epoch)
            self._taker.take_push(push)
        elif kind == BEAT and self._agreed:
            beat = decode(body, Beat)
            self._check(beat.epoch)
            self.synced(self._taker.take_beat(beat))
        elif kind == AGREED and not self._agreed:
            agreed = decode(body, Agreed)
            self._check(agreed.epoch)
            synced = self._taker.agreed(agreed)
            self._agreed = self.is_connected = True
            self.synced(synced)
        elif kind == REFUSAL:
            refusal = refusal_of(body)
            if self._link is not None:
                self._link.close(f"the leader refuses: {refusal.reason}")
            if refusal.incomplete:
                self._taker.refuse_leader(refusal.reason)
            elif refusal.divergent:
                self._taker.diverge(refusal.reason)
            elif refusal.refetch:
                self._taker.refetch(refusal.reason)
        else:
            raise LonghallError(Code.INVALID_REQUEST, f"a leader sent a frame of kind {kind} out of turn")

    def _check(self, epoch: int) -> None:
        if epoch != self.epoch:
            raise LonghallError(Code.FENCED_LEADER_EPOCH, f"a leader speaks of epoch {epoch}, and this is {self.epoch}")

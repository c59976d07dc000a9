"""The follower's connection to its leader: connect, agree on a common log, then take the batches that it pushes.

    dial -> follow -> agreed -> pushes and heartbeats, each answered with the index that is synced here
      ^                 |
      +---- a pause ----+----- if the connection breaks or falls silent, or a frame does not fit

It ends when its replica has another leader or another epoch, or needs a full sync.
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
    """The follower role that the connection feeds."""

    def follow(self) -> Follow:
        """The end of the log here."""

    def agreed(self, agreed: Agreed) -> int:
        """Truncate the log to where it agrees with the leader's; returns the last index that is synced."""

    def take_push(self, push: Push) -> None:
        """Append the entries."""

    def take_beat(self, beat: Beat) -> int:
        """Learn the leader's commit position; returns the last index that is synced here."""

    def refetch(self, reason: str) -> None:
        """The log here cannot be continued."""

    def refuse_leader(self, reason: str) -> None:
        """The leader lacks entries that were committed here."""

    def diverge(self, reason: str) -> None:
        """The state here is not the majority's."""


@final
class LeaderConnection:
    """The connection to one leader under one epoch, made again until `stop`. `is_connected` is True once the two logs
    agree, until the connection is lost.
    """

    def __init__(
        self,
        target: ReplicationTarget,
        peers: Peers,
        leader: int,
        epoch: int,
        silence_s: float,
        background: BackgroundTasks,
    ) -> None:
        self.leader = leader
        self.epoch = epoch
        self.is_connected = False
        self._target = target
        self._peers = peers
        self._silence_s = silence_s
        self._link: Link | None = None
        self._lost = asyncio.Event()
        self._has_received = False
        self._agreed = False
        self._ended = False
        self._task = background.start("follow", self._run)

    def stop(self) -> None:
        """Take no more frames and send no more reports, from this moment on."""
        self._ended = True
        self._task.cancel()
        if self._link is not None:
            self._link.abort("the leader is another one")
            self._peers.forget(self._link)

    def synced(self, index: int) -> None:
        """Everything up to `index` is on the disk here: report it to the leader."""
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
                has_agreed = await self._run_connection(link)
                if has_agreed:
                    rest_s = REST_S[0]
            await asyncio.sleep(rest_s)
            rest_s = min(rest_s * 2, REST_S[1])

    async def _run_connection(self, link: Link) -> bool:
        """Run one connection to its end. True if the two logs agreed."""
        self._link = link
        self._agreed = False
        self._lost.clear()
        link.on_frame = self._frame
        link.on_lost = self._lost.set
        try:
            link.send(FOLLOW, self._target.follow())
            while link.is_open:
                self._has_received = False
                try:
                    async with asyncio.timeout(self._silence_s):
                        await self._lost.wait()
                except TimeoutError:
                    if not self._has_received:
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
        self._has_received = True
        if kind == PUSH and self._agreed:
            push = decode_push(body)
            self._check(push.epoch)
            self._target.take_push(push)
        elif kind == BEAT and self._agreed:
            beat = decode(body, Beat)
            self._check(beat.epoch)
            self.synced(self._target.take_beat(beat))
        elif kind == AGREED and not self._agreed:
            agreed = decode(body, Agreed)
            self._check(agreed.epoch)
            synced = self._target.agreed(agreed)
            self._agreed = self.is_connected = True
            self.synced(synced)
        elif kind == REFUSAL:
            refusal = refusal_of(body)
            if self._link is not None:
                self._link.close(f"the leader refuses: {refusal.reason}")
            if refusal.incomplete:
                self._target.refuse_leader(refusal.reason)
            elif refusal.divergent:
                self._target.diverge(refusal.reason)
            elif refusal.refetch:
                self._target.refetch(refusal.reason)
        else:
            raise LonghallError(Code.INVALID_REQUEST, f"a leader sent a frame of kind {kind} out of turn")

    def _check(self, epoch: int) -> None:
        if epoch != self.epoch:
            raise LonghallError(Code.FENCED_LEADER_EPOCH, f"a leader speaks of epoch {epoch}, and this is {self.epoch}")

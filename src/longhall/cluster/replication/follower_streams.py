"""The leader's streams to its followers: one a follower, opened when the two logs agree.

A follower reports the end of its log (`Follow`). The leader compares the two logs, pushes the entries that the follower
lacks, and hears from it what is synced there.

A frame of a follower may claim an epoch that this leader does not know. It deposes no leader: only the coordinator
gives epochs, so the registrar is asked to read the record.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, final

from longhall.broker.hall import Hall
from longhall.cluster.replication.follower_stream import FollowerStream, expect_follower
from longhall.cluster.replication.full_sync import FullSyncSource
from longhall.cluster.replication.log_matching import agree
from longhall.cluster.replication.push_batches import PushBatch, RecentBatches
from longhall.cluster.replication.quarantine import Quarantine
from longhall.cluster.replication.replica_log import ReplicaLog
from longhall.cluster.replication.roles import Registrar, ReplicaOptions
from longhall.cluster.rpc.link import Link
from longhall.cluster.rpc.peers import Peers
from longhall.cluster.rpc.wire import AGREED, REFUSAL, SYNCED, Agreed, Follow, Refusal, Synced, decode, said_level
from longhall.errors import Code, LonghallError
from longhall.shards.commit_tracker import CommitTracker


class StreamingLeader(Protocol):
    """What the streams need of the leader role."""

    @property
    def leading(self) -> CommitTracker | None:
        """The leader's commit tracker; None at a replica that does not lead."""

    def may_announce_epoch(self) -> bool:
        """True if the start of the epoch is synced here."""

    def advance(self) -> None:
        """A follower has reported a sync: acknowledge what is committed by now."""

    def give_up(self, node: int) -> None:
        """Take this follower out of the in-sync set."""

    def renounce(self, reason: str) -> None:
        """A follower in sync has committed entries that are missing here."""

    def diverge(self, reason: str) -> None:
        """The majority has another state than this node."""


@final
class FollowerStreams:
    """The streams that are open, by node, with the batches that they push and the full sync that they fall back to."""

    def __init__(
        self,
        leader: StreamingLeader,
        hall: Hall,
        log: ReplicaLog,
        peers: Peers,
        registrar: Registrar,
        options: ReplicaOptions,
    ) -> None:
        self.by_node: dict[int, FollowerStream] = {}
        self.quarantine = Quarantine(peers.node, self.by_node, leader.give_up, leader.diverge)
        self.full_sync = FullSyncSource(hall, peers, self.quarantine.readmit)
        self._leader = leader
        self._hall = hall
        self._log = log
        self._peers = peers
        self._registrar = registrar
        self._recent = RecentBatches(options.recent_bytes)
        self._credit_bytes = options.credit_bytes
        self._early: list[tuple[Link, int, Follow]] = []  # Followers that came before the epoch was on the disk.
        peers.on_follower = _expecting(self.meet)

    def add(self, batch: PushBatch) -> None:
        """The next batch to push. `FollowerStream.pump` sends it."""
        self._recent.add(batch)

    def meet(self, link: Link, node: int, follow: Follow) -> None:
        """A follower reports the end of its log."""
        leading = self._leader.leading
        if not link.is_open:
            return
        newest = max(follow.epoch, follow.epochs[-1][0] if follow.epochs else 0)
        if leading is None or follow.epoch != leading.epoch or newest > leading.epoch:
            self._refuse(link, Refusal(reason=f"this node does not lead epoch {follow.epoch}", epoch=self._log.epoch))
            if leading is not None and newest > leading.epoch:
                self._registrar.epoch_claimed(newest)
        elif not leading.may_follow(node):
            self._refuse(link, Refusal(reason=f"node {node} is no replica of this group", epoch=self._log.epoch))
        elif self.quarantine.refuses(link, node, self._log.epoch):
            return
        elif not self._leader.may_announce_epoch():
            # Nobody may hear of an epoch that a restart of this node could forget: it might be led once more, and then
            # epoch and index would not tell one entry from another.
            self._early.append((link, node, follow))
        else:
            self._agree(leading, link, node, follow)

    def meet_early(self) -> None:
        """The start of the epoch is on the disk."""
        early, self._early = self._early, []
        for link, node, follow in early:
            self.meet(link, node, follow)

    def close(self, why: str) -> None:
        """Close every stream."""
        for stream in list(self.by_node.values()):
            stream.close(why)
        self.by_node.clear()

    def _agree(self, leading: CommitTracker, link: Link, node: int, follow: Follow) -> None:
        common, diverged = agree(self._log.replica, follow, leading.unclean_epoch)
        if diverged or not self._reaches(common + 1):
            reason = f"the log of the leader does not go on behind entry {common} of the follower's"
            self._refuse(
                link, Refusal(reason=reason, epoch=self._log.epoch, refetch=not diverged, incomplete=diverged), reason
            )
            if diverged and node in leading.in_sync:
                self._leader.renounce(f"node {node} has committed entries behind {common} that this node lacks")
            return
        self.full_sync.done(node)
        before = self.by_node.pop(node, None)
        if before is not None:
            before.close("the follower has another connection")
        now_ms = self._hall.world.clock.monotonic_ms()
        stream = FollowerStream(self._hall, self._log.replica, self._recent, link, node, leading.epoch)
        stream.next = common + 1  # The log is retained for it from now on.
        self.by_node[node] = stream
        leading.met(node, 0, now_ms)
        link.on_frame = lambda kind, body: self._answered(stream, kind, body)
        link.on_lost = lambda: self._lost(stream)
        committed = self._log.replica.committed
        level = said_level(self._hall.feature_level)
        link.send(AGREED, Agreed(epoch=leading.epoch, index=common, committed=committed, level=level))
        stream.begin(common + 1, self._credit_bytes, now_ms)

    def _reaches(self, index: int) -> bool:
        """True if the log here still has this entry, or will have it next."""
        if index > self._log.replica.index or self._recent.beginning_at(index) is not None:
            return True
        return self._hall.positions.has(index)

    def _answered(self, stream: FollowerStream, kind: int, body: bytes) -> None:
        leading = self._leader.leading
        if leading is None or self.by_node.get(stream.node) is not stream:
            return
        if kind != SYNCED:
            raise LonghallError(Code.INVALID_REQUEST, f"a follower sent a frame of kind {kind} out of turn")
        synced = decode(body, Synced)
        if synced.epoch > leading.epoch:
            self._registrar.epoch_claimed(synced.epoch)
            return
        if synced.epoch < leading.epoch:
            raise LonghallError(Code.FENCED_LEADER_EPOCH, f"an answer for epoch {synced.epoch}")
        leading.answered(stream.node, min(synced.index, stream.next - 1))
        stream.answered(synced.index, self._hall.world.clock.monotonic_ms())
        self._leader.advance()

    def _lost(self, stream: FollowerStream) -> None:
        self._peers.forget(stream.link)
        stream.close("the connection is gone")
        if self.by_node.get(stream.node) is stream:
            del self.by_node[stream.node]

    @staticmethod
    def _refuse(link: Link, refusal: Refusal, why: str = "") -> None:
        link.send(REFUSAL, refusal)
        link.close(why)


def _expecting(meet: Callable[[Link, int, Follow], None]) -> Callable[..., None]:
    return lambda link, greeting: expect_follower(meet, link, greeting)

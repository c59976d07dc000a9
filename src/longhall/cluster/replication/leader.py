"""The leader role of a replica: it pushes entries to the followers, commits and acknowledges them.

    append      each entry that the shards append gets an index and joins the next batch
    push        a batch goes to the followers as soon as it is in the page cache, before the sync here ends
    advance     a sync ended, here or at a follower: what every replica in sync has is committed and acknowledged
    heartbeat   followers are asked for an answer; a silent one loses its stream, a late one leaves the in-sync set

The role lasts as long as its replica. Before `lead` it refuses entries and followers.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Final, Protocol, final

from longhall.broker.events import EpochStarted, encoder
from longhall.broker.hall import Hall
from longhall.cluster.replication.acknowledgement_release import AcknowledgementRelease
from longhall.cluster.replication.digests import Comparison
from longhall.cluster.replication.follower_streams import FollowerStreams
from longhall.cluster.replication.in_sync_recorder import InSyncRecorder
from longhall.cluster.replication.push_batches import PUSH_BATCH_BYTES, PushBatcher
from longhall.cluster.replication.replica_log import ReplicaLog
from longhall.cluster.replication.replica_notes import ReplicaNotes
from longhall.cluster.replication.roles import GroupRecord, Registrar, ReplicaOptions
from longhall.cluster.replication.write_admission import WriteAdmission
from longhall.cluster.rpc.peers import Peers
from longhall.errors import Code, LonghallError
from longhall.shards.commit_tracker import CommitTracker
from longhall.shards.shard import SHARD

NONCE_MAX: Final = 1 << 62

_log = logging.getLogger("longhall.replica")


class LeaderOwner(Protocol):
    """What the leader role needs of its replica."""

    def step_down(self, reason: str) -> None:
        """Another node leads, or may lead."""

    def diverge(self, reason: str) -> None:
        """The majority has another state than this node."""

    def check_leadership(self) -> None:
        """A heartbeat was sent."""


@final
class GroupLeader:
    """What a replica does while it leads. `leading` is None until it leads, and again when it steps down."""

    def __init__(
        self,
        owner: LeaderOwner,
        hall: Hall,
        log: ReplicaLog,
        peers: Peers,
        registrar: Registrar,
        options: ReplicaOptions,
    ) -> None:
        self.leading: CommitTracker | None = None
        self.streams = FollowerStreams(self, hall, log, peers, registrar, options)
        self.comparison = Comparison(
            hall, log.replica, peers, lambda: self.leading, self.streams.quarantine.exclude, options.digest_ms
        )
        self.admission = WriteAdmission(hall, options.in_sync_min)
        self._owner = owner
        self._hall = hall
        self._log = log
        self._options = options
        self._batcher = PushBatcher()
        self._releases = AcknowledgementRelease(hall.shards, hall.backlog)
        self._in_sync = InSyncRecorder(self, registrar, hall.background, hall.world.clock, options.lag_ms_max)
        self._notes: ReplicaNotes | None = None
        self._timer = asyncio.get_running_loop().call_later(options.heartbeat_ms / 1000, self._heartbeat)

    # Role

    async def lead(self, node: int, epoch: int, record: GroupRecord) -> None:
        """Begin the epoch as node `node`, and serve when its first entries are committed. LonghallError(NOT_LEADER) if
        the role ends before.
        """
        committed = self.admission.begin_epoch()
        self._begin_epoch(node, epoch, record)
        await committed
        self.admission.is_serving = True
        self.admission.update(self.leading)

    def _begin_epoch(self, node: int, epoch: int, record: GroupRecord) -> None:
        hall = self._hall
        replica = self._log.replica
        now_ms = hall.world.clock.monotonic_ms()
        replica.leading = True
        self.leading = CommitTracker(
            node, epoch, record.in_sync, record.version, replica.index, replica.committed, now_ms
        )
        self.leading.replicas = record.replicas
        self.leading.unclean_epoch = record.unclean_epoch
        self.leading.synced_here(self._log.synced)
        nonce = replica.nonces[epoch] = 1 + hall.world.entropy.below(NONCE_MAX)
        hall.wal.hold()
        try:
            for shard in hall.shards:
                shard.epoch = epoch
                begun = EpochStarted(epoch=epoch, incarnation=hall.wal.incarnation, nonce=nonce)
                shard.append_event(SHARD, encoder.encode(begun))
                hall.journal.touch(shard, True)
        finally:
            hall.wal.let_go()
        hall.commits.kick()
        self._notes = ReplicaNotes(hall, replica, self.leading)
        self._notes.write()

    def stop_leading(self) -> None:
        """Append and acknowledge nothing from now on. `close` ends the rest."""
        notes = self._hall.journal.notes
        if notes is not None and self.leading is not None:
            notes.write()  # This log may be that of the next leader.
        self.leading = None
        self._log.replica.leading = False
        self.admission.stop()

    def close(self) -> None:
        """End every stream, comparison and change of the in-sync set."""
        self.comparison.stop()
        self._timer.cancel()
        self.streams.close("the leader steps down")
        self._in_sync.cancel()
        self.admission.abandon_epoch()

    def step_down(self, reason: str) -> None:
        """Another node leads, or may lead."""
        self._owner.step_down(reason)

    def diverge(self, reason: str) -> None:
        """The majority has another state than this node."""
        self._owner.diverge(reason)

    # Entries

    def append(self, shard: int, sequence: int, head: bytes, body: bytes) -> None:
        """An entry is about to be appended here."""
        leading = self.leading
        if leading is None:
            raise LonghallError(Code.NOT_LEADER, "this node does not lead the hall")
        if self._batcher.bytes >= PUSH_BATCH_BYTES and not self._hall.wal.is_held:
            self._close_batch(self._hall.time.now_ms())
        index = self._log.append(shard, sequence, leading.epoch)
        self._batcher.take(index, shard, sequence, head, body)

    def push(self, time_ms: int) -> None:
        """Everything that was appended is in the page cache: push it to the followers while the disk is at work."""
        if self.leading is not None:
            self._close_batch(time_ms)
            for stream in list(self.streams.by_node.values()):
                stream.pump()

    def _close_batch(self, time_ms: int) -> None:
        batch = self._batcher.close(self._log.index, time_ms)
        if batch is not None:
            self.streams.add(batch)
            self._releases.add(batch)

    def synced(self, leading: CommitTracker, index: int) -> None:
        """The disk of this node has everything up to `index`."""
        leading.synced_here(index)
        self.advance()
        self.streams.meet_early()

    def advance(self) -> None:
        """Commit and acknowledge everything that the replicas in sync have by now."""
        leading = self.leading
        if leading is None:
            return
        replica = self._log.replica
        if leading.committed > replica.committed:
            replica.commit(leading.committed)
            self._releases.commit(replica.committed)
            if self._notes is not None:
                self._notes.committed()
            if self._releases.is_done:
                self.admission.commit_epoch()
        if self.admission.is_serving:
            self._releases.reach(leading.synced, leading.quorum)

    def may_announce_epoch(self) -> bool:
        """True if the start of this node's epoch is synced here."""
        return self.leading is not None and self._log.synced > self.leading.begun_at

    # In-sync set

    def give_up(self, node: int) -> None:
        """This follower is dead, not late: ask at once to go on without it."""
        if self.leading is not None and node not in self.streams.by_node:
            self.leading.give_up(node)
            self._in_sync.update()

    def renounce(self, reason: str) -> None:
        """This node leads and lacks committed entries that a replica in sync has: that replica can lead."""
        self._in_sync.renounce(reason)

    def recorded(self, epoch: int, record: GroupRecord) -> None:
        """The coordinator has this record for the epoch, whether this node asked for it or not. Old ones do no harm."""
        leading = self.leading
        if leading is None or leading.epoch != epoch or record.version <= leading.version:
            return
        _log.info("in sync", extra={"nodes": sorted(record.in_sync), "epoch": epoch})
        leading.recorded(record.version, record.in_sync, record.replicas)
        for stream in [one for one in self.streams.by_node.values() if not leading.may_follow(one.node)]:
            stream.close("the follower is no replica any more")
        # Before anything is acknowledged: what the rest of them commit is not safe if they are too few.
        self.admission.update(self.leading)
        self.advance()

    def set_transferring(self, is_transferring: bool) -> None:
        """Take no more messages while another node is about to lead, or take them again."""
        self.admission.is_transferring = is_transferring
        self.admission.update(self.leading)

    # Heartbeat

    def send_heartbeats(self) -> None:
        """Tell every follower the commit position and the feature level."""
        for stream in list(self.streams.by_node.values()):
            stream.beat(self._hall.time.now_ms())

    def _heartbeat(self) -> None:
        """Ask the followers for an answer, and check which of them are in sync."""
        loop = asyncio.get_running_loop()
        self._timer = loop.call_later(self._options.heartbeat_ms / 1000, self._heartbeat)
        leading = self.leading
        if leading is None:
            return
        now_ms = self._hall.world.clock.monotonic_ms()
        leading.mark(self._log.index, now_ms)
        if self._notes is not None:
            self._notes.write()
        for stream in list(self.streams.by_node.values()):
            stream.beat(self._hall.time.now_ms())
            if now_ms - stream.answered_ms > self._options.lag_ms_max:
                stream.close("the follower is silent")
        self._in_sync.update()
        self.admission.update(self.leading)
        if self.admission.is_serving and not self.admission.is_transferring:
            self.comparison.tick()
        self._owner.check_leadership()

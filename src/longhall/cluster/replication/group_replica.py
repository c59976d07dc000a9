"""A member of a cluster: the role that this node has in keeping the hall, and what follows from it.

    role        what it does with the log
    FOLLOWER    writes what the leader pushes, answers what is synced, applies what the leader says is committed
    LEADER      appends; commits what is synced here and at every other member that is in sync
    ABSENT      nothing yet, or nothing any more: after stepping down a member is of no further use

All shards of the hall are led together, under one epoch: entries of several shards depend on each other and may stand
or fall as one, so they have one order (see `shards.feed`) and one leader. A member lives as long as its hall: whoever
steps down throws both away and recovers a new hall from the data directory, because the old one has applied what may
never be committed.

The member does not know who should lead. It is told, with an epoch from the coordinator, and holds to it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from functools import partial
from typing import Final, final

import msgspec

from longhall.broker.apply import ReplicaFailed
from longhall.broker.events import CommittedTo, EpochStarted, Truncated, encoder
from longhall.broker.hall import EVENT_ROOM_BYTES, Hall
from longhall.broker.replica_recovery import RecoveredReplica
from longhall.cluster.replication.acknowledgement_release import AcknowledgementRelease
from longhall.cluster.replication.applier import Applier
from longhall.cluster.replication.digests import Comparison
from longhall.cluster.replication.follower_status import status_of
from longhall.cluster.replication.follower_streams import FollowerStreams
from longhall.cluster.replication.full_sync import FullSyncSource
from longhall.cluster.replication.leader_connection import LeaderConnection
from longhall.cluster.replication.push_batches import BUNDLE_BYTES, PushBatch, PushBatcher, RecentBatches
from longhall.cluster.replication.quarantine import Quarantine
from longhall.cluster.replication.repair_policy import Diverged, Failure, log_failure
from longhall.cluster.replication.replica_notes import ReplicaNotes
from longhall.cluster.replication.replica_repair import ReplicaRepair
from longhall.cluster.replication.roles import GroupRecord, Registrar, ReplicaOptions, ReplicaStatus, Role
from longhall.cluster.replication.wal_retention import retained_from
from longhall.cluster.rpc.peers import Peers
from longhall.cluster.rpc.wire import Agreed, Beat, Follow, Push
from longhall.errors import Code, LonghallError
from longhall.log.frames import encode_event
from longhall.names import CATALOGUE_SHARD
from longhall.shards.commit_tracker import CommitTracker
from longhall.shards.feed import Feed
from longhall.shards.replica import Replica
from longhall.shards.shard import SHARD

__all__ = ["GroupReplica", "ReplicaOptions", "ReplicaStatus", "GroupRecord", "Registrar", "Role"]

NEVER: Final = 1 << 62
NONCE_MAX: Final = 1 << 62

_log = logging.getLogger("longhall.member")


@final
class GroupReplica(Feed):
    """See the module. Made from a hall that `broker.replica_recovery` has filled."""

    def __init__(
        self,
        hall: Hall,
        rejoined: RecoveredReplica,
        node: int,
        peers: Peers,
        registrar: Registrar,
        options: ReplicaOptions,
    ) -> None:
        super().__init__()
        assert hall.replica is not None
        self.node = node
        self.on_step_down: Callable[[str], None] = _nobody  # Throw hall and member away and recover anew.
        self.on_refetch: Callable[[int, str], None] = _nobody  # The log here cannot go on: fetch all from there.
        self.on_incomplete_leader: Callable[[int, str], None] = _nobody  # That leader lacks what was committed here.
        self.on_failure: Callable[[int, Failure], None] = _nobody  # Out of service: repair it, from that leader.
        self.on_level: Callable[[int], None] = self.raise_level  # The leader writes in this one: be ready for it first.
        self.on_bundle: Callable[[PushBatch], None] = _nobody  # For checkers: what was appended here,
        self.on_committed: Callable[[int, int], None] = _nobody  # and epoch and index of what is committed.
        self.on_beat: Callable[[], None] = _nobody  # While it leads, or believes to.
        self.epoch = hall.replica.epoch  # The newest that this node was told or has written.
        self.replica: Replica = hall.replica
        self.index = self.replica.index
        self._hall = hall
        self._peers = peers
        self._registrar = registrar
        self._options = options
        self._clock = hall.world.clock
        self._loop = asyncio.get_running_loop()
        self._leader = 0
        self._serving = False
        self._yielding = False  # About to hand over: no more messages are taken.
        self._ended = False
        self._synced = self.replica.index  # Recovery has synced all that it found.
        self._cut = NEVER  # A sync that is under way is worth no more than this.
        self._marked = self.replica.committed
        self._marked_position = hall.wal.end
        self._following: LeaderConnection | None = None
        self._leading: CommitTracker | None = None
        self._notes: ReplicaNotes | None = None
        self._opened: asyncio.Future[None] | None = None
        self._bundling = PushBatcher()
        self._recent = RecentBatches(options.recent_bytes)
        self._releases = AcknowledgementRelease(hall.shards, hall.backlog)
        self._recording: asyncio.Task[None] | None = None
        self._unrecorded = ""  # Why the in-sync set could not be recorded last, and that was logged.
        self._applier = Applier(self.replica, rejoined.replay, lambda: self._following is not None, self.fail)
        for shard in hall.shards:
            shard.feed = self
        hall.journal.feed = self
        hall.refusal = Code.NOT_LEADER
        self._offer = FullSyncSource(hall, peers)
        self._streams = FollowerStreams(self, hall, peers, registrar, self._recent, self._offer, options.credit_bytes)
        hall.on_release = partial(retained_from, hall, self._streams.by_node, options.wal_kept_bytes)
        self.exclusion = Quarantine(node, self._streams.by_node, self.give_up, self.diverge)
        self._offer.on_begin = self.exclusion.readmit
        self.comparison = Comparison(
            hall, self.replica, peers, lambda: self._leading, self.exclusion.exclude, self._options.digest_ms
        )
        rejoined.replay.on_mark = lambda mark: self.comparison.applied(mark, self._leader, self.replica.epoch)
        self.repair = ReplicaRepair(hall, peers, self)
        self._timers = [
            self._loop.call_later(options.mark_ms / 1000, self._mark),
            self._loop.call_later(options.heartbeat_ms / 1000, self._beat),
        ]

    # What others ask

    def role_of(self, shard: int) -> Role:
        """What this node is to the shard."""
        if self._serving:
            return Role.LEADER
        return Role.FOLLOWER if self._following is not None else Role.ABSENT

    def leader_of(self, shard: int) -> int:
        """The node that leads the shard as far as this one was told; 0 for none."""
        return self._leader

    @property
    def leading(self) -> CommitTracker | None:
        """What it knows as leader, if it is one."""
        return self._leading

    @property
    def is_following(self) -> bool:
        """True while it follows a leader whose log agrees with its own."""
        return self._following is not None and self._following.is_connected

    def position(self) -> tuple[int, int]:
        """The epoch and the index of the last entry here: what a manager may want to know before it chooses."""
        return self.replica.epoch, self.replica.index

    def status(self) -> ReplicaStatus:
        """How things stand."""
        return status_of(self, self._streams.by_node, self._offer.fetching(), self._clock.monotonic_ms())

    # Roles

    async def become_leader(self, epoch: int, record: GroupRecord) -> None:
        """Lead under this epoch, with the nodes on record (this one among them) in sync. Returns when the epoch's
        first entry is committed; only then is `role_of` LEADER and may anybody be served. LonghallError(NOT_LEADER)
        when it came to nothing, and then `on_step_down` was called or a newer role is in force.
        """
        if self._ended or epoch < self.epoch or epoch <= self.replica.epoch or self.node not in record.in_sync:
            raise LonghallError(Code.NOT_LEADER, f"epoch {epoch} is not for this node to lead")
        self._stop_following()
        self.epoch = epoch
        self._leader = self.node
        told = (epoch, self.node)
        if not await self._applier.apply_all(lambda: not self._ended and (self.epoch, self._leader) == told):
            raise LonghallError(Code.NOT_LEADER, "a newer epoch began meanwhile, or the log cannot be applied")
        opened = self._opened = self._loop.create_future()
        self._begin_epoch(epoch, record)
        await opened
        self._serving = True
        self._refuse()

    def become_follower(self, epoch: int, leader: int) -> None:
        """Follow this node under this epoch; with leader 0, wait until there is one. Returns at once. A leader of a
        lower epoch steps down.
        """
        if self._ended or epoch < self.epoch or (epoch == self.epoch and self._leading is not None):
            return
        if self._leading is not None:
            self.step_down(f"node {leader} leads epoch {epoch}")
            return
        if self._following is not None and (self._following.epoch, self._following.leader) == (epoch, leader):
            return
        if self.replica.applied > self.replica.committed:  # It was about to lead and has applied all it had.
            self.step_down(f"node {leader} leads epoch {epoch}")
            return
        self._stop_following()
        self.epoch = epoch
        self._leader = leader
        if leader not in (0, self.node):
            silence_s = self._options.lag_ms_max / 1000
            self._following = LeaderConnection(self, self._peers, leader, epoch, silence_s, self._hall.background)

    def stand_aside(self, aside: bool) -> None:
        """Take no more messages while somebody else is about to lead, or take them again."""
        self._yielding = aside
        self._refuse()

    def give_up(self, node: int) -> None:
        """This follower is dead, not late: ask at once to go on without it."""
        if self._leading is not None and node not in self._streams.by_node:
            self._leading.give_up(node)
            self._wish()

    def step_down(self, reason: str) -> None:
        """No more of anything: somebody else leads, or may. What was not committed was not answered to anybody."""
        if self._ended:
            return
        _log.info("stepping down", extra={"reason": reason, "epoch": self.epoch})
        self._end()
        self._loop.call_soon(self.on_step_down, reason)

    def fail(self, failure: Failure) -> None:
        """Fail-stop: the state here is not what the log says, so it answers nobody and leads nothing from now on. A
        leader that only differs from the majority goes on until another one leads.
        """
        if self._ended or self._hall.failed:
            return
        log_failure(failure)
        self._hall.failed = str(failure)
        leader = self._leader
        if self._leading is None or isinstance(failure, ReplicaFailed):
            self._end()
        self._loop.call_soon(self.on_failure, leader, failure)

    def diverge(self, reason: str) -> None:
        """The majority has another state than this node."""
        self.fail(Diverged(reason))

    def raise_level(self, level: int) -> None:
        """From now on entries may be written in the formats of this feature level; followers are told before any is."""
        if level > self._hall.feature_level:
            self._hall.feature_level = level
            for stream in list(self._streams.by_node.values()):
                stream.beat(self._hall.time.now_ms())

    def stand(self, epoch: int) -> tuple[int, int]:
        """Somebody chooses a leader for an epoch behind this one, and asks what is here. From now on nothing is taken
        of leaders up to this epoch, so that nobody acknowledges what the next leader does not know.
        """
        self.become_follower(epoch, 0)
        if self._ended or self.epoch != epoch or self._leading is not None or self._following is not None:
            raise LonghallError(Code.NOT_READY, f"this node does not stand for election behind epoch {epoch}")
        return self.position()

    async def stop(self) -> None:
        """Close the streams. What was not committed stays so; nothing waits for it."""
        self._end()
        await asyncio.sleep(0)

    def _end(self) -> None:
        self._ended = True
        self._serving = False
        self._leading = None
        self.replica.leading = False
        self._hall.refusal = Code.NOT_LEADER
        self._stop_following()
        self.repair.stop()
        self.comparison.stop()
        for timer in self._timers:
            timer.cancel()
        self._streams.close("the leader steps down")
        if self._recording is not None:
            self._recording.cancel()
        if self._opened is not None and not self._opened.done():
            self._opened.set_exception(LonghallError(Code.NOT_LEADER, "another leader was chosen"))

    def _stop_following(self) -> None:
        if self._following is not None:
            self._following.stop()
            self._following = None

    def _begin_epoch(self, epoch: int, record: GroupRecord) -> None:
        hall = self._hall
        replica = self.replica
        now_ms = self._clock.monotonic_ms()
        replica.leading = True
        self._leading = CommitTracker(
            self.node, epoch, record.in_sync, record.version, replica.index, replica.committed, now_ms
        )
        self._leading.replicas = record.replicas
        self._leading.unclean_epoch = record.unclean_epoch
        self._leading.synced_here(self._synced)
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
        self._notes = ReplicaNotes(hall, replica, self._leading)
        self._notes.write()

    # Leading: what the shards and the journal tell

    def damage_found(self, partition: int, offset: int, told: Callable[[], None]) -> bool:
        """Somebody else may have it: see `mending`."""
        return self.repair.wanted(partition, offset, told)

    def entry(self, shard: int, sequence: int, head: bytes, body: bytes) -> None:
        """An entry is about to be appended here."""
        leading = self._leading
        if leading is None:
            raise LonghallError(Code.NOT_LEADER, "this node does not lead the hall")
        if self._bundling.bytes >= BUNDLE_BYTES and not self._hall.wal.is_held:
            self._close_bundle(self._hall.time.now_ms())
        self.replica.note(shard, sequence, leading.epoch)
        self.index = self.replica.index
        self._bundling.take(self.index, shard, sequence, head, body)

    def written(self, time_ms: int) -> None:
        """Everything is in the page cache: off to the followers with it, while the disk is at work."""
        self._hall.positions.note(self.index, self._hall.wal.end)
        if self._hall.wal.end - self._marked_position >= self._options.mark_bytes:
            self._loop.call_soon(self._mark_now)  # Not now: a round is about to begin with what is written.
        if self._leading is not None:
            self._close_bundle(time_ms)
            for stream in list(self._streams.by_node.values()):
                stream.pump()

    def begin(self) -> int:
        """A sync begins."""
        self._cut = NEVER
        return self.index

    def synced(self, index: int) -> None:
        """It has ended. What was cut off meanwhile does not count, whatever took its place."""
        self._synced = max(self._synced, min(index, self._cut))
        if self._leading is not None:
            self._leading.synced_here(self._synced)
            self.advance()
            self._streams.meet_early()
        elif self._following is not None:
            self._following.synced(self._synced)

    def _close_bundle(self, time_ms: int) -> None:
        bundle = self._bundling.close(self.index, time_ms)
        if bundle is not None:
            self._recent.add(bundle)
            self._releases.add(bundle)
            self.on_bundle(bundle)

    def advance(self) -> None:
        """Release what is committed by now."""
        leading = self._leading
        if leading is None:
            return
        if leading.committed > self.replica.committed:
            self.replica.commit(leading.committed)
            self.on_committed(leading.epoch, self.replica.committed)
            self._releases.commit(self.replica.committed)
            if self._notes is not None:
                self._notes.committed()
            if self._opened is not None and not self._opened.done() and self._releases.is_done:
                self._opened.set_result(None)
        if self._serving:
            self._releases.reach(leading.synced, leading.quorum)

    def may_announce_epoch(self) -> bool:
        """True if the start of this node's epoch is synced here."""
        return self._leading is not None and self._synced > self._leading.begun_at

    def renounce(self, reason: str) -> None:
        """This node leads and lacks committed entries that a node in sync has: that one can lead."""
        if self._leading is not None and (self._recording is None or self._recording.done()):
            self._recording = self._loop.create_task(self._renounced(self._leading.epoch, reason), name="renounce")

    async def _renounced(self, epoch: int, reason: str) -> None:
        try:
            await self._registrar.renounce(epoch)
        except (OSError, TimeoutError, LonghallError) as error:
            _log.warning("the leadership could not be renounced", extra={"reason": str(error)})
        else:
            self.step_down(reason)

    def _beat(self) -> None:
        """Now and then: ask followers for an answer, and see who is in sync."""
        self._timers[1] = self._loop.call_later(self._options.heartbeat_ms / 1000, self._beat)
        leading = self._leading
        if leading is None:
            return
        now_ms = self._clock.monotonic_ms()
        leading.mark(self.index, now_ms)
        if self._notes is not None:
            self._notes.write()
        for stream in list(self._streams.by_node.values()):
            stream.beat(self._hall.time.now_ms())
            if now_ms - stream.heard_ms > self._options.lag_ms_max:
                stream.close("the follower is silent")
        self._wish()
        self._refuse()
        if self._serving and not self._yielding:
            self.comparison.tick()
        self.on_beat()

    def _wish(self) -> None:
        """Have the in-sync set changed if it is not right."""
        leading = self._leading
        if leading is None or (self._recording is not None and not self._recording.done()):
            return
        wish = leading.wish(self._options.lag_ms_max, self._clock.monotonic_ms())
        if wish is not None:
            leading.ask(wish)
            work = partial(self._record, leading, wish)
            self._recording = self._hall.background.start("in-sync set", work, fatal=True)

    async def _record(self, leading: CommitTracker, wish: frozenset[int]) -> None:
        try:
            record = await self._registrar.record_in_sync(leading.epoch, leading.version, wish)
        except (OSError, TimeoutError, LonghallError) as error:
            if str(error) != self._unrecorded:  # It is tried with every heartbeat.
                self._unrecorded = str(error)
                _log.warning("the in-sync set could not be recorded", extra={"reason": str(error)})
            return
        self._unrecorded = ""
        if self._leading is not leading:
            return
        if record is None:
            self.step_down("the coordinator has another leader or epoch")
            return
        self.recorded(leading.epoch, record)

    def recorded(self, epoch: int, record: GroupRecord) -> None:
        """The coordinator has this on record for the epoch: asked for by this member or not. Old ones do no harm."""
        leading = self._leading
        if leading is None or leading.epoch != epoch or record.version <= leading.version:
            return
        _log.info("in sync", extra={"nodes": sorted(record.in_sync), "epoch": epoch})
        leading.recorded(record.version, record.in_sync, record.replicas)
        for stream in [one for one in self._streams.by_node.values() if not leading.may_follow(one.node)]:
            stream.close("the follower keeps the hall no more")
        self._refuse()  # Before anything is released: what the rest of them commit is not safe if they are too few.
        self.advance()

    def _refuse(self) -> None:
        """Whether messages are taken."""
        leading = self._leading
        self._hall.is_short = leading is not None and len(leading.in_sync) < self._options.in_sync_min
        if not self._serving or leading is None or self._yielding:
            self._hall.refusal = Code.NOT_LEADER
        else:
            self._hall.refusal = Code.NOT_ENOUGH_REPLICAS if self._hall.is_short else None

    # LeaderConnection

    def follow(self) -> Follow:
        """What is here, for the leader."""
        replica = self.replica
        return Follow(
            epoch=self.epoch,
            index=replica.index,
            committed=replica.committed,
            epochs=replica.epochs.snapshot(),
            nonces=replica.nonces,
        )

    def agreed(self, agreed: Agreed) -> int:
        """Cut the log to where it agrees with the leader's; returns what is synced of that."""
        self._hear_level(agreed.level)
        if agreed.index < self.replica.committed:
            self.refuse_leader(f"the leader lacks entries from {agreed.index + 1} on that were committed here")
        elif agreed.index < self.replica.index:
            self._truncate(agreed.index)
        self._hear(agreed.committed)
        return self._synced

    def _truncate(self, index: int) -> None:
        """Only what is pending goes. The note in the log makes sure that it does not come back."""
        hall = self._hall
        cut, messages = self.index - index, self.replica.truncate(index)
        hall.messages_cut += messages
        # They were not committed. Whoever appended them may have acknowledged them alone, where a topic allows it.
        _log.warning("the log was cut", extra={"index": index, "entries": cut, "messages": messages})
        self.index = index
        hall.commits.write()  # So that the note begins a frame.
        hall.positions.cut_behind(index, hall.wal.end)
        self._synced = min(self._synced, index)
        self._cut = min(self._cut, index)
        self._note(Truncated(index=index))
        hall.journal.touch(hall.shards[0], True)
        hall.commits.kick()

    def take_push(self, push: Push) -> None:
        """Write the entries; they are applied when they are committed."""
        hall = self._hall
        replica = self.replica
        if push.first != replica.index + 1:
            raise LonghallError(Code.INVALID_REQUEST, f"entry {push.first} came, and {replica.index + 1} was expected")
        if not hall.log_has_room(len(push.entries) + EVENT_ROOM_BYTES):
            raise LonghallError(Code.STORAGE_FULL, "there is no room for the leader's entries")
        before = replica.index
        try:
            for entry in push.decode():
                replica.take(entry, push.time_ms)
            hall.wal.append_together(push.entries, push.count)
        except BaseException:  # What is not in the log here must not be counted, or it would be answered for.
            replica.truncate(before)
            raise
        self.index = replica.index
        hall.time.follow(push.time_ms)
        hall.journal.touch(hall.shards[0], True)
        hall.commits.kick()
        self._hear(push.committed)

    def take_beat(self, beat: Beat) -> int:
        """Hear what is committed; returns what is synced."""
        self._hear_level(beat.level)
        self._hall.time.follow(beat.time_ms)
        self._hear(beat.committed)
        return self._synced

    def refetch(self, reason: str) -> None:
        """The log here cannot be continued."""
        if not self._ended:
            leader = self._leader
            self._end()
            self._loop.call_soon(self.on_refetch, leader, reason)

    def refuse_leader(self, reason: str) -> None:
        """The leader lacks what was committed here: nothing is discarded, and nothing is taken from it."""
        if not self._ended:
            leader = self._leader
            self._end()
            self._loop.call_soon(self.on_incomplete_leader, leader, reason)

    def _hear_level(self, level: int | msgspec.UnsetType) -> None:
        if isinstance(level, int) and level > self._hall.feature_level:
            self.on_level(level)

    def _hear(self, committed: int) -> None:
        self.replica.commit(committed)
        self._applier.schedule()

    # Notes in the log, for this node alone

    def _mark(self) -> None:
        """Note up to where the log is committed, so that a recovery can apply it."""
        self._timers[0] = self._loop.call_later(self._options.mark_ms / 1000, self._mark)
        self._mark_now()

    def _mark_now(self) -> None:
        if self.replica.committed > self._marked and self._hall.commits.failure is None and not self._ended:
            self._marked = self.replica.committed
            self._marked_position = self._hall.wal.end
            self._note(CommittedTo(index=self._marked))
            self._hall.commits.kick()

    def _note(self, mark: Truncated | CommittedTo) -> None:
        self._hall.wal.append(encode_event(0, CATALOGUE_SHARD, 0, self.epoch, SHARD, encoder.encode(mark)))


def _nobody(*what: object) -> None:
    """Until assembly says otherwise."""

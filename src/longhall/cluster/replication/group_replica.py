"""A replica of a replication group: the role of this node in the group, and what happens when the role changes.

    role        what it does with the log
    FOLLOWER    appends what the leader pushes, reports what is synced, applies what is committed (`follower`)
    LEADER      appends, and commits what is synced here and at every other replica in sync (`leader`)
    ABSENT      nothing, before it has a role and after it has stepped down

All shards of the hall have one leader and one epoch: entries of several shards depend on each other and are committed
or discarded together, so they have one order (see `shards.feed`). A replica lasts as long as its hall. A leader that
steps down has applied entries that may never be committed, so its owner discards replica and hall and recovers both
from the data directory.

The replica does not decide which node leads. The coordinator's record names the leader and its epoch.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from functools import partial
from typing import Protocol, final

from longhall.broker.apply import ReplicaFailed
from longhall.broker.hall import Hall
from longhall.broker.replica_recovery import RecoveredReplica
from longhall.cluster.replication.digests import Comparison
from longhall.cluster.replication.follower import GroupFollower
from longhall.cluster.replication.follower_status import status_of
from longhall.cluster.replication.leader import GroupLeader
from longhall.cluster.replication.repair_policy import Diverged, Failure, log_failure
from longhall.cluster.replication.replica_log import ReplicaLog
from longhall.cluster.replication.replica_repair import ReplicaRepair
from longhall.cluster.replication.roles import GroupRecord, Registrar, ReplicaOptions, ReplicaStatus, Role
from longhall.cluster.replication.wal_retention import retained_from
from longhall.cluster.rpc.peers import Peers
from longhall.errors import Code, LonghallError
from longhall.shards.commit_tracker import CommitTracker
from longhall.shards.feed import Feed
from longhall.shards.replica import Replica

__all__ = ["GroupReplica", "ReplicaOwner", "ReplicaOptions", "ReplicaStatus", "GroupRecord", "Registrar", "Role"]

_log = logging.getLogger("longhall.replica")


class ReplicaOwner(Protocol):
    """The node that runs the replica. It acts on what a replica cannot repair itself."""

    def restart(self, reason: str) -> None:
        """The replica has stepped down: discard it with its hall, and recover both from the data directory."""

    def refetch(self, leader: int, reason: str) -> None:
        """The log here cannot be continued: a full sync from the leader replaces it."""

    def refuse_leader(self, leader: int, reason: str) -> None:
        """This leader lacks entries that were committed here."""

    def repair(self, leader: int, failure: Failure) -> None:
        """The replica is out of service: repair it, from this leader if need be."""

    def raise_level(self, level: int) -> None:
        """The leader writes in the formats of this feature level: be ready for it, then raise the replica's."""

    def check_leadership(self) -> None:
        """The replica leads, or believes that it does, and has sent a heartbeat."""


@final
class GroupReplica(Feed):
    """One node's replica of the group, from recovery until it steps down. `rejoined` is the recovery that filled the
    hall. The shards and the journal report to it (`Feed`); its current role acts on what they report.
    """

    def __init__(
        self,
        hall: Hall,
        rejoined: RecoveredReplica,
        node: int,
        peers: Peers,
        registrar: Registrar,
        owner: ReplicaOwner,
        options: ReplicaOptions,
    ) -> None:
        super().__init__()
        self.node = node
        self._owner = owner
        self._hall = hall
        self._loop = asyncio.get_running_loop()
        self._leader_node = 0
        self._ended = False
        self.log = ReplicaLog(hall, options)
        for shard in hall.shards:
            shard.feed = self
        hall.journal.feed = self
        self.follower = GroupFollower(self, hall, self.log, peers, rejoined.replay, options.lag_ms_max)
        self.leader = GroupLeader(self, hall, self.log, peers, registrar, options)
        hall.on_release = partial(retained_from, hall, self.leader.streams.by_node, options.wal_kept_bytes)
        comparison, replica = self.leader.comparison, self.log.replica
        rejoined.replay.on_mark = lambda mark: comparison.applied(mark, self._leader_node, replica.epoch)
        self.repair = ReplicaRepair(hall, peers, self)

    # State

    @property
    def replica(self) -> Replica:
        """The pure state: what is appended, committed and applied here."""
        return self.log.replica

    @property
    def epoch(self) -> int:
        """The newest epoch that this node was given or has written."""
        return self.log.epoch

    @property
    def index(self) -> int:
        """The last entry in the log here."""
        return self.log.index

    @property
    def leading(self) -> CommitTracker | None:
        """The leader's commit tracker; None unless this node leads."""
        return self.leader.leading

    @property
    def comparison(self) -> Comparison:
        """The comparison of this replica's state with the others'."""
        return self.leader.comparison

    @property
    def is_following(self) -> bool:
        """True while it follows a leader whose log agrees with its own."""
        return self.follower.connection is not None and self.follower.connection.is_connected

    def role_of(self, shard: int) -> Role:
        """The role of this node for the shard."""
        if self.leader.admission.is_serving:
            return Role.LEADER
        return Role.FOLLOWER if self.follower.connection is not None else Role.ABSENT

    def leader_of(self, shard: int) -> int:
        """The node that leads the shard, as far as this one knows; 0 for none."""
        return self._leader_node

    def position(self) -> tuple[int, int]:
        """The epoch and the index of the last entry here."""
        return self.replica.epoch, self.replica.index

    def status(self) -> ReplicaStatus:
        """The state of the replica, and at a leader that of its followers."""
        streams = self.leader.streams
        return status_of(self, streams, self._hall.world.clock.monotonic_ms())

    # Roles

    async def become_leader(self, epoch: int, record: GroupRecord) -> None:
        """Lead under this epoch, with the nodes on record (this one among them) in sync. Returns when the epoch's
        first entry is committed; only then is `role_of` LEADER, and only then may clients be served.
        LonghallError(NOT_LEADER) if that fails, and then the owner is asked to restart or a newer role is in force.
        """
        if self._ended or epoch < self.epoch or epoch <= self.replica.epoch or self.node not in record.in_sync:
            raise LonghallError(Code.NOT_LEADER, f"epoch {epoch} is not for this node to lead")
        self.follower.stop()
        self.log.epoch = epoch
        self._leader_node = self.node
        given = (epoch, self.node)
        if not await self.follower.applier.apply_all(
            lambda: not self._ended and (self.epoch, self._leader_node) == given
        ):
            raise LonghallError(Code.NOT_LEADER, "a newer epoch began meanwhile, or the log cannot be applied")
        await self.leader.lead(self.node, epoch, record)

    def become_follower(self, epoch: int, leader: int) -> None:
        """Follow this node under this epoch; with leader 0, wait until there is one. Returns at once. A leader of a
        lower epoch steps down.
        """
        if self._ended or epoch < self.epoch or (epoch == self.epoch and self.leading is not None):
            return
        if self.leading is not None:
            self.step_down(f"node {leader} leads epoch {epoch}")
            return
        connection = self.follower.connection
        if connection is not None and (connection.epoch, connection.leader) == (epoch, leader):
            return
        if self.replica.applied > self.replica.committed:  # It was about to lead, and has applied its whole log.
            self.step_down(f"node {leader} leads epoch {epoch}")
            return
        self.follower.stop()
        self.log.epoch = epoch
        self._leader_node = leader
        if leader not in (0, self.node):
            self.follower.start(epoch, leader)

    def vote(self, epoch: int) -> tuple[int, int]:
        """A leader is elected for an epoch behind this one: returns the epoch and index of the last entry here. From
        now on this node accepts nothing from leaders up to this epoch, so that it acknowledges nothing that the next
        leader lacks. LonghallError(NOT_READY) if it cannot vote for this epoch.
        """
        self.become_follower(epoch, 0)
        if self._ended or self.epoch != epoch or self.leading is not None or self.follower.connection is not None:
            raise LonghallError(Code.NOT_READY, f"this node does not vote behind epoch {epoch}")
        return self.position()

    def set_transferring(self, is_transferring: bool) -> None:
        """Take no more messages while another node is about to lead, or take them again."""
        self.leader.set_transferring(is_transferring)

    def give_up(self, node: int) -> None:
        """This follower is dead, not late: ask at once to go on without it."""
        self.leader.give_up(node)

    def recorded(self, epoch: int, record: GroupRecord) -> None:
        """The coordinator has this record for the epoch, whether this node asked for it or not."""
        self.leader.recorded(epoch, record)

    def raise_level(self, level: int) -> None:
        """From now on entries may be written in the formats of this feature level; followers learn it before any is."""
        if level > self._hall.feature_level:
            self._hall.feature_level = level
            self.leader.send_heartbeats()

    def follow_level(self, level: int) -> None:
        """The leader writes in the formats of this feature level."""
        self._owner.raise_level(level)

    def check_leadership(self) -> None:
        """The leader has sent a heartbeat."""
        self._owner.check_leadership()

    # End

    def step_down(self, reason: str) -> None:
        """End the replica: another node leads, or may lead. Nothing was acknowledged that is not committed."""
        if self._ended:
            return
        _log.info("stepping down", extra={"reason": reason, "epoch": self.epoch})
        self._end()
        self._loop.call_soon(self._owner.restart, reason)

    def fail(self, failure: Failure) -> None:
        """Fail-stop: the state here is not what the log says, so the replica ends and serves nobody. A leader that only
        differs from the majority leads until another node does.
        """
        if self._ended or self._hall.failed:
            return
        log_failure(failure)
        self._hall.failed = str(failure)
        leader = self._leader_node
        if self.leading is None or isinstance(failure, ReplicaFailed):
            self._end()
        self._loop.call_soon(self._owner.repair, leader, failure)

    def diverge(self, reason: str) -> None:
        """The majority has another state than this node."""
        self.fail(Diverged(reason))

    def refetch(self, reason: str) -> None:
        """The log here cannot be continued."""
        if not self._ended:
            leader = self._leader_node
            self._end()
            self._loop.call_soon(self._owner.refetch, leader, reason)

    def refuse_leader(self, reason: str) -> None:
        """The leader lacks what was committed here: nothing is discarded, and nothing is taken from it."""
        if not self._ended:
            leader = self._leader_node
            self._end()
            self._loop.call_soon(self._owner.refuse_leader, leader, reason)

    async def stop(self) -> None:
        """Close the streams. Entries that are not committed stay so; nothing waits for them."""
        self._end()
        await asyncio.sleep(0)

    def _end(self) -> None:
        self._ended = True
        self.leader.stop_leading()
        self.follower.stop()
        self.repair.stop()
        self.log.stop()
        self.leader.close()

    # What the shards and the journal report

    def damage_found(self, partition: int, offset: int, told: Callable[[], None]) -> bool:
        """A message cannot be read here: another replica may have it (`replica_repair`)."""
        return self.repair.request(partition, offset, told)

    def entry(self, shard: int, sequence: int, head: bytes, body: bytes) -> None:
        """An entry is about to be appended here."""
        self.leader.append(shard, sequence, head, body)

    def written(self, time_ms: int) -> None:
        """Everything that was appended is in the page cache."""
        self.log.written()
        self.leader.push(time_ms)

    def begin(self) -> int:
        """A sync begins."""
        return self.log.begin_sync()

    def synced(self, index: int) -> None:
        """A sync has ended: the leader counts it, a follower reports it."""
        synced = self.log.end_sync(index)
        if self.leading is not None:
            self.leader.synced(self.leading, synced)
        elif self.follower.connection is not None:
            self.follower.connection.synced(synced)

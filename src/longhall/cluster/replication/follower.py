"""The follower role of a replica: it appends what the leader pushes, reports what is synced, applies what is committed.

    connect     tell the leader where the log here ends (`follow`)
    agree       truncate the log to where it agrees with the leader's
    push        append the batch; the sync that follows is reported to the leader
    heartbeat   learn the commit position and the feature level, and report what is synced

Entries are applied when the leader says that they are committed, never before.
"""

from __future__ import annotations

from typing import Protocol, final

import msgspec

from longhall.broker.apply import ReplicaFailed
from longhall.broker.hall import EVENT_ROOM_BYTES, Hall
from longhall.broker.replay import Replay
from longhall.cluster.replication.applier import Applier
from longhall.cluster.replication.leader_connection import LeaderConnection
from longhall.cluster.replication.replica_log import ReplicaLog
from longhall.cluster.rpc.peers import Peers
from longhall.cluster.rpc.wire import Agreed, Beat, Follow, Push
from longhall.errors import Code, LonghallError


class FollowerOwner(Protocol):
    """What the follower role needs of its replica."""

    def fail(self, failure: ReplicaFailed) -> None:
        """An entry cannot be applied."""

    def refetch(self, reason: str) -> None:
        """The log here cannot be continued."""

    def refuse_leader(self, reason: str) -> None:
        """The leader lacks entries that were committed here."""

    def diverge(self, reason: str) -> None:
        """The majority has another state than this node."""

    def follow_level(self, level: int) -> None:
        """The leader writes in the formats of this feature level."""


@final
class GroupFollower:
    """What a replica does while it follows. `connection` is None while it has no leader to follow."""

    def __init__(
        self, owner: FollowerOwner, hall: Hall, log: ReplicaLog, peers: Peers, replay: Replay, lag_ms_max: int
    ) -> None:
        self.connection: LeaderConnection | None = None
        self.applier = Applier(log.replica, replay, lambda: self.connection is not None, owner.fail)
        self._owner = owner
        self._hall = hall
        self._log = log
        self._peers = peers
        self._silence_s = lag_ms_max / 1000

    def start(self, epoch: int, leader: int) -> None:
        """Follow this leader under this epoch."""
        self.connection = LeaderConnection(self, self._peers, leader, epoch, self._silence_s, self._hall.background)

    def stop(self) -> None:
        """Follow no leader."""
        if self.connection is not None:
            self.connection.stop()
            self.connection = None

    def follow(self) -> Follow:
        """The end of the log here, for the leader."""
        replica = self._log.replica
        return Follow(
            epoch=self._log.epoch,
            index=replica.index,
            committed=replica.committed,
            epochs=replica.epochs.snapshot(),
            nonces=replica.nonces,
        )

    def agreed(self, agreed: Agreed) -> int:
        """Truncate the log to where it agrees with the leader's; returns the last index that is synced."""
        self._follow_level(agreed.level)
        if agreed.index < self._log.replica.committed:
            self.refuse_leader(f"the leader lacks entries from {agreed.index + 1} on that were committed here")
        elif agreed.index < self._log.replica.index:
            self._log.truncate(agreed.index)
        self._commit(agreed.committed)
        return self._log.synced

    def take_push(self, push: Push) -> None:
        """Append the entries; they are applied when they are committed."""
        hall = self._hall
        replica = self._log.replica
        if push.first != replica.index + 1:
            raise LonghallError(Code.INVALID_REQUEST, f"entry {push.first} came, and {replica.index + 1} was expected")
        if not hall.log_has_room(len(push.entries) + EVENT_ROOM_BYTES):
            raise LonghallError(Code.STORAGE_FULL, "there is no room for the leader's entries")
        self._log.append_push(push)
        hall.time.follow(push.time_ms)
        hall.journal.touch(hall.shards[0], True)
        hall.commits.kick()
        self._commit(push.committed)

    def take_beat(self, beat: Beat) -> int:
        """Learn the leader's commit position; returns the last index that is synced here."""
        self._follow_level(beat.level)
        self._hall.time.follow(beat.time_ms)
        self._commit(beat.committed)
        return self._log.synced

    def refetch(self, reason: str) -> None:
        """The log here cannot be continued."""
        self._owner.refetch(reason)

    def refuse_leader(self, reason: str) -> None:
        """The leader lacks entries that were committed here."""
        self._owner.refuse_leader(reason)

    def diverge(self, reason: str) -> None:
        """The majority has another state than this node."""
        self._owner.diverge(reason)

    def _follow_level(self, level: int | msgspec.UnsetType) -> None:
        if isinstance(level, int) and level > self._hall.feature_level:
            self._owner.follow_level(level)

    def _commit(self, committed: int) -> None:
        self._log.replica.commit(committed)
        self.applier.schedule()

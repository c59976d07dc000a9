"""What a member of a cluster is told and tells: roles, records, options and how it stands."""

from __future__ import annotations

import enum
from typing import Protocol

import msgspec


class Role(enum.Enum):
    """What a member may be: see `member`."""

    LEADER = "leader"
    FOLLOWER = "follower"
    ABSENT = "absent"


class GroupRecord(msgspec.Struct, frozen=True, kw_only=True):
    """What the coordinator has on record of the in-sync set; every change has a higher version."""

    version: int
    in_sync: frozenset[int]
    replicas: frozenset[int] | None = None  # Who keeps the hall, and no others; None if anybody may.
    unclean_epoch: int = 0  # As `ShardState.unclean_epoch`.


class Registrar(Protocol):
    """Where the in-sync set is written down for everybody: the coordinator, by compare-and-set."""

    async def record_in_sync(self, epoch: int, version: int, in_sync: frozenset[int]) -> GroupRecord | None:
        """Make this the in-sync set of the epoch, on condition that the record still has this version. Returns the
        record as it is then: the new one, or, where somebody else was first, theirs. None when another epoch or leader
        is recorded: the caller must step down. OSError when nobody knows: the member reckons with both sets and asks
        again.
        """

    def epoch_claimed(self, epoch: int) -> None:
        """Another node claims a later epoch than this one leads under. Only the coordinator knows: read the record."""

    async def renounce(self, epoch: int) -> None:
        """This node leads the epoch and lacks committed entries: have it on record as neither leader nor in sync, if
        others are.
        """


class ReplicaOptions(msgspec.Struct, frozen=True, kw_only=True):
    """What the settings say about replication."""

    in_sync_min: int = 2  # Messages are refused while fewer, the leader counted, are in sync.
    lag_ms_max: int = 3_000  # A follower that lags longer leaves the in-sync set.
    heartbeat_ms: int = 200
    credit_bytes: int = 16 * 1024 * 1024  # Pushed to a follower and not answered yet.
    recent_bytes: int = 64 * 1024 * 1024  # Of the log in memory, for followers that are a little behind.
    mark_ms: int = 1_000  # How often the commit position is noted in the log, if it moved,
    mark_bytes: int = 4 * 1024 * 1024  # or after so much of it.
    digest_ms: int = 60_000  # How often replicas compare their state, if the log has moved.
    wal_kept_bytes: int = 256 * 1024 * 1024  # Behind a checkpoint, for followers that come back.


class FollowerStatus(msgspec.Struct, frozen=True, kw_only=True):
    """How a follower does, as its leader sees it."""

    node: int
    connected: bool
    in_sync: bool
    index: int  # Synced there.
    lag_entries: int
    lag_ms: int


class FullSyncProgress(msgspec.Struct, frozen=True, kw_only=True):
    """A member that fetches everything from this one, and how far it is."""

    node: int
    bytes_done: int
    bytes_total: int


class ReplicaStatus(msgspec.Struct, frozen=True, kw_only=True):
    """For `cluster status`."""

    node: int
    role: Role
    leader: int
    epoch: int
    index: int  # Of the last entry in the log here.
    committed: int
    applied: int
    in_sync: list[int]
    followers: list[FollowerStatus]  # Known to the leader alone.
    fetching: FullSyncProgress | None = None  # Likewise.
    divergent: list[int] = []  # Likewise: nodes whose state is not the majority's, or differs without a majority.
    compared: int = 0  # Likewise: marks at which the replicas compared their state.

"""The roles, records, options and status of a replica: the types that it shares with the other rooms."""

from __future__ import annotations

import enum
from typing import Protocol

import msgspec


class Role(enum.Enum):
    """The role of a replica: see `group_replica`."""

    LEADER = "leader"
    FOLLOWER = "follower"
    ABSENT = "absent"


class GroupRecord(msgspec.Struct, frozen=True, kw_only=True):
    """The in-sync set as the coordinator has recorded it; every change has a higher version."""

    version: int
    in_sync: frozenset[int]
    replicas: frozenset[int] | None = None  # The nodes that may follow; None if every node may.
    unclean_epoch: int = 0  # As `ShardState.unclean_epoch`.


class Registrar(Protocol):
    """Records the in-sync set with the coordinator, by compare-and-set."""

    async def record_in_sync(self, epoch: int, version: int, in_sync: frozenset[int]) -> GroupRecord | None:
        """Make this the in-sync set of the epoch, on condition that the record still has this version. Returns the
        record after that: the new one, or the one that another node wrote first. None if another epoch or leader is
        recorded: the caller must step down. OSError if the outcome is unknown: the leader reckons with both sets and
        tries again.
        """

    def epoch_claimed(self, epoch: int) -> None:
        """Another node claims a later epoch than this one leads under. Only the coordinator knows: read the record."""

    async def renounce(self, epoch: int) -> None:
        """This node leads the epoch and lacks committed entries: record that it neither leads nor is in sync, if other
        replicas are in sync.
        """


class ReplicaOptions(msgspec.Struct, frozen=True, kw_only=True):
    """The settings of replication."""

    in_sync_min: int = 2  # Messages are refused while fewer, the leader counted, are in sync.
    lag_ms_max: int = 3_000  # A follower that lags longer leaves the in-sync set.
    heartbeat_ms: int = 200
    credit_bytes: int = 16 * 1024 * 1024  # Pushed to a follower and not reported as synced yet.
    recent_bytes: int = 64 * 1024 * 1024  # Of the log in memory, for followers that are a little behind.
    mark_ms: int = 1_000  # How often the commit position is marked in the log, if it has moved,
    mark_bytes: int = 4 * 1024 * 1024  # or after this many bytes of it.
    digest_ms: int = 60_000  # How often replicas compare their state, if the log has moved.
    wal_kept_bytes: int = 256 * 1024 * 1024  # Retained behind a checkpoint, for followers that come back.


class FollowerStatus(msgspec.Struct, frozen=True, kw_only=True):
    """A follower as its leader sees it."""

    node: int
    connected: bool
    in_sync: bool
    index: int  # Synced there.
    lag_entries: int
    lag_ms: int


class FullSyncProgress(msgspec.Struct, frozen=True, kw_only=True):
    """A replica that does a full sync from this one, and how far it is."""

    node: int
    bytes_done: int
    bytes_total: int


class ReplicaStatus(msgspec.Struct, frozen=True, kw_only=True):
    """A replica, for `cluster status`."""

    node: int
    role: Role
    leader: int
    epoch: int
    index: int  # Of the last entry in the log here.
    committed: int
    applied: int
    in_sync: list[int]
    followers: list[FollowerStatus]  # Only at the leader.
    fetching: FullSyncProgress | None = None  # Only at the leader.
    divergent: list[int] = []  # Only at the leader: nodes whose state differs, with a majority against them or not.
    compared: int = 0  # Only at the leader: marks at which the replicas compared their state.

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

import enum
from collections.abc import Callable
from typing import Protocol, final

import msgspec

from longhall.broker.hall import Hall
from longhall.cluster.peers import Peers


class Role(enum.Enum):
    """See the module."""

    LEADER = "leader"
    FOLLOWER = "follower"
    ABSENT = "absent"


class Registrar(Protocol):
    """Where the in-sync set is written down for everybody: the coordinator, by compare-and-set."""

    async def record_in_sync(self, epoch: int, in_sync: frozenset[int]) -> bool:
        """Make this the in-sync set of the epoch. True: it is recorded. False: another epoch or leader is recorded, so
        the caller must step down. OSError: nobody knows; the member reckons with both sets and asks again.
        """


class MemberOptions(msgspec.Struct, frozen=True, kw_only=True):
    """What the settings say about replication."""

    in_sync_min: int = 2  # Messages are refused while fewer, the leader counted, are in sync.
    lag_ms_max: int = 3_000  # A follower that lags longer leaves the in-sync set.
    heartbeat_ms: int = 200
    credit_bytes: int = 16 * 1024 * 1024  # Pushed to a follower and not answered yet.
    recent_bytes: int = 64 * 1024 * 1024  # Of the log in memory, for followers that are a little behind.
    mark_ms: int = 1_000  # How often the commit position is noted in the log, if it moved.


class FollowerStatus(msgspec.Struct, frozen=True, kw_only=True):
    """How a follower does, as its leader sees it."""

    node: int
    connected: bool
    in_sync: bool
    index: int  # Synced there.
    lag_entries: int
    lag_ms: int


class MemberStatus(msgspec.Struct, frozen=True, kw_only=True):
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


@final
class Member:
    """See the module. Made from a hall that `restore.recover_member` has filled."""

    def __init__(self, hall: Hall, node: int, peers: Peers, registrar: Registrar, options: MemberOptions) -> None:
        self.node = node
        self.on_step_down: Callable[[str], None] = _nobody_listens  # Throw hall and member away and recover anew.
        self.on_refetch: Callable[[int], None] = _nobody_asks  # The log here cannot go on: fetch all from this node.

    def role_of(self, shard: int) -> Role:
        """What this node is to the shard."""
        raise NotImplementedError

    def leader_of(self, shard: int) -> int:
        """The node that leads the shard as far as this one was told; 0 for none."""
        raise NotImplementedError

    def position(self) -> tuple[int, int]:
        """The epoch and the index of the last entry here: what a manager may want to know before it chooses."""
        raise NotImplementedError

    def status(self) -> MemberStatus:
        """How things stand."""
        raise NotImplementedError

    async def become_leader(self, epoch: int, in_sync: frozenset[int]) -> None:
        """Lead under this epoch, with these nodes (this one among them) recorded as in sync. Returns when the epoch's
        first entry is committed; only then is `role_of` LEADER and may anybody be served. LonghallError(NOT_LEADER)
        when it came to nothing, and then `on_step_down` was called or a newer role is in force.
        """
        raise NotImplementedError

    def become_follower(self, epoch: int, leader: int) -> None:
        """Follow this node under this epoch; with leader 0, wait until there is one. Returns at once. A leader of a
        lower epoch steps down.
        """
        raise NotImplementedError

    async def stop(self) -> None:
        """Close the streams. What was not committed stays so; nothing waits for it."""
        raise NotImplementedError


def _nobody_listens(reason: str) -> None:
    """Until assembly says otherwise."""


def _nobody_asks(node: int) -> None:
    """Likewise."""

"""How `memory_bytes` is divided among everything that grows with what clients send.

    share              part of memory_bytes        what it holds
    requests           all but the next            requests that have arrived and are not answered
    unauthenticated    1/16                        requests of connections that have not authenticated
    tails              1/2                         batches that are in the write-ahead log and not in their segment
    backlog            1/2                         entries that wait for their commit; a follower keeps them in memory
    recent entries     1/4, at most 64 MiB         entries for followers that are a little behind
    credit             1/16, at most 16 MiB        entries on their way to one follower

The sum is more than the whole: one batch is counted as a request, then as a tail, a recent entry and a part of the
backlog, but its bytes are in memory once.
"""

from __future__ import annotations

from typing import Final

import msgspec

from longhall.cluster.replication.roles import ReplicaOptions
from longhall.node.settings import Settings

UNAUTHENTICATED_SHARE: Final = 16
UNAUTHENTICATED_BYTES_MIN: Final = 1024 * 1024
TAIL_SHARE: Final = 2
BACKLOG_SHARE: Final = 2
RECENT_SHARE: Final = 4
CREDIT_SHARE: Final = 16
RECENT_BYTES_MAX: Final = 64 * 1024 * 1024
CREDIT_BYTES_MAX: Final = 16 * 1024 * 1024


class Shares(msgspec.Struct, frozen=True, kw_only=True):
    """The parts of `memory_bytes` in bytes, one field for each row of the table above."""

    requests_bytes: int
    unauthenticated_bytes: int
    tail_bytes: int
    backlog_bytes: int


def shares_of(memory_bytes: int) -> Shares:
    """The shares of a node."""
    unauthenticated = max(memory_bytes // UNAUTHENTICATED_SHARE, UNAUTHENTICATED_BYTES_MIN)
    return Shares(
        requests_bytes=memory_bytes - unauthenticated,
        unauthenticated_bytes=unauthenticated,
        tail_bytes=memory_bytes // TAIL_SHARE,
        backlog_bytes=memory_bytes // BACKLOG_SHARE,
    )


def member_options(settings: Settings) -> ReplicaOptions:
    """The options of the replica, from the settings."""
    return ReplicaOptions(
        in_sync_min=settings.in_sync_min,
        lag_ms_max=settings.lag_ms_max,
        digest_ms=settings.digest_interval_ms,
        recent_bytes=min(settings.memory_bytes // RECENT_SHARE, RECENT_BYTES_MAX),
        credit_bytes=min(settings.memory_bytes // CREDIT_SHARE, CREDIT_BYTES_MAX),
    )

"""Apply: the entries of a replicated log, in order, and a full stop at the first one that cannot be applied.

An entry counts as applied when its replay has returned, never before. Whatever exception its replay raises, the state
may hold half of the entry: it is of no further use, and `ReplicaFailed` says so. Whoever owns the hall takes the
replica out of service and rebuilds it (see `cluster.replication.repair_policy`). An entry is never passed over.
"""

from __future__ import annotations

import errno
from typing import final

from longhall.broker.replay import Replay
from longhall.errors import Code, LonghallError
from longhall.log.frames import Entry
from longhall.shards.replica import Replica

FULL = (errno.ENOSPC, errno.EDQUOT)


@final
class ReplicaFailed(LonghallError):
    """An entry could not be applied, or the log before it could not be read: the replica must be rebuilt.

    `is_io` means that the disk did not answer, so that another try from the disk may succeed; `is_full` that it has no
    space, so that fetching another copy would not help.
    """

    def __init__(self, index: int, epoch: int, shard: int, cause: BaseException) -> None:
        self.index = index
        self.epoch = epoch
        self.shard = shard
        self.is_io = isinstance(cause, OSError)
        self.is_full = isinstance(cause, OSError) and cause.errno in FULL
        reason = str(cause) if isinstance(cause, OSError | LonghallError) else repr(cause)
        super().__init__(
            Code.STORAGE_DAMAGED, f"entry {index} (epoch {epoch}, shard {shard}) cannot be applied: {reason}"
        )


def apply_entry(replay: Replay, entry: Entry, index: int) -> None:
    """Apply one entry; ReplicaFailed if that cannot be."""
    try:
        replay.take(entry)
    except Exception as error:
        raise ReplicaFailed(index, entry.epoch, entry.shard, error) from error


def apply_committed(replica: Replica, replay: Replay, count_max: int) -> int:
    """Apply what is committed, at most so many entries; returns how many. ReplicaFailed at the first that fails."""
    count = 0
    while count < count_max:
        entry = replica.next_committed()
        if entry is None:
            break
        apply_entry(replay, entry, replica.applied + 1)
        replica.advance()
        count += 1
    return count


def apply_pending(replica: Replica, replay: Replay, count_max: int) -> None:
    """The same for everything that is written here, committed or not: a new leader applies all it has."""
    for _ in range(min(count_max, len(replica.pending))):
        apply_entry(replay, replica.pending[0][0], replica.applied + 1)
        replica.advance()

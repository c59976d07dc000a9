"""Apply the entries of a replicated log in order, and stop at the first entry that fails.

An entry counts as applied when its replay has returned. If the replay raises, the state may contain half of the entry
and is unusable; `ReplicaFailed` reports this. The owner of the hall takes the replica out of service and rebuilds it
(see `cluster.replication.repair_policy`). An entry is never skipped.
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

    With `is_io` the disk failed, and a retry from the disk may succeed; with `is_full` it has no space, and a full sync
    would not help.
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
    """Apply one entry. Raises ReplicaFailed."""
    try:
        replay.take(entry)
    except Exception as error:
        raise ReplicaFailed(index, entry.epoch, entry.shard, error) from error


def apply_committed(replica: Replica, replay: Replay, count_max: int) -> int:
    """Apply at most `count_max` committed entries; returns how many. Raises ReplicaFailed at the first failure."""
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
    """Apply all written entries, committed or not: a new leader does this."""
    for _ in range(min(count_max, len(replica.pending))):
        apply_entry(replay, replica.pending[0][0], replica.applied + 1)
        replica.advance()

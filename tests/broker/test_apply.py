"""An entry counts as applied when it is, and the first one that cannot be is the last."""

from __future__ import annotations

import errno
from typing import Any, cast

import pytest

from longhall.broker.apply import ReplicaFailed, apply_committed, apply_pending
from longhall.broker.replay import Replay
from longhall.errors import Code
from longhall.log.frames import EVENT, Entry
from longhall.shards.replica import Replica


class Applied:
    """Stands for a replay: fails at one entry."""

    def __init__(self, fails_at: int = 0, error: Exception | None = None) -> None:
        self.sequences: list[int] = []
        self._fails_at = fails_at
        self._error = error

    def take(self, entry: Entry) -> None:
        if entry.sequence == self._fails_at and self._error is not None:
            raise self._error
        self.sequences.append(entry.sequence)


def replica_of(count: int, committed: int) -> Replica:
    replica = Replica(1)
    for sequence in range(1, count + 1):
        replica.take(Entry(EVENT, 0, 0, sequence, 4, b"x"), 0)
    replica.commit(committed)
    return replica


def replay(applied: Applied) -> Replay:
    return cast(Replay, applied)


def test_only_committed_entries_are_applied() -> None:
    replica, applied = replica_of(5, 3), Applied()
    assert apply_committed(replica, replay(applied), 2) == 2
    assert apply_committed(replica, replay(applied), 10) == 1
    assert (applied.sequences, replica.applied, len(replica.pending)) == ([1, 2, 3], 3, 2)


def test_a_new_leader_applies_everything() -> None:
    replica, applied = replica_of(5, 3), Applied()
    apply_pending(replica, replay(applied), 100)
    assert (applied.sequences, replica.applied, len(replica.pending)) == ([1, 2, 3, 4, 5], 5, 0)


@pytest.mark.parametrize(
    ("error", "is_io", "is_full"),
    [
        (OSError(errno.EIO, "no answer"), True, False),
        (OSError(errno.ENOSPC, "no space"), True, True),
        (KeyError("x"), False, False),
        (AssertionError(), False, False),
    ],
)
@pytest.mark.parametrize("apply", [apply_committed, apply_pending])
def test_a_failed_entry_stays_pending(apply: Any, error: Exception, is_io: bool, is_full: bool) -> None:
    replica, applied = replica_of(5, 5), Applied(3, error)
    with pytest.raises(ReplicaFailed) as caught:
        apply(replica, replay(applied), 100)
    failed = caught.value
    assert (failed.index, failed.epoch, failed.shard, failed.is_io, failed.is_full) == (3, 4, 0, is_io, is_full)
    assert failed.code is Code.STORAGE_DAMAGED
    assert "entry 3 (epoch 4, shard 0) cannot be applied" in str(failed)
    assert (applied.sequences, replica.applied, replica.pending[0][0].sequence) == ([1, 2], 2, 3)

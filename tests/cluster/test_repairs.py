"""The repair of a failed replica, by its earlier failures."""

from __future__ import annotations

import errno

from longhall.broker.apply import ReplicaFailed
from longhall.cluster.replication.repair_policy import RESTARTS_MAX, Diverged, Remedy, RepairPolicy


def failure(index: int, cause: Exception | None = None) -> ReplicaFailed:
    return ReplicaFailed(index, 3, 1, cause if cause is not None else OSError(errno.EIO, "no answer"))


def test_a_failed_disk_read_is_repeated_once_for_each_entry() -> None:
    repairs = RepairPolicy()
    assert repairs.failed(failure(7)) is Remedy.RESTART
    assert "entry 7 (epoch 3, shard 1)" in repairs.reason
    assert repairs.failed(failure(8)) is Remedy.RESTART
    assert repairs.failed(failure(8)) is Remedy.FULL_SYNC
    assert (repairs.apply_failures, repairs.full_syncs) == (3, 1)


def test_repeated_disk_failures_end_in_a_full_sync() -> None:
    repairs = RepairPolicy()
    remedies = [repairs.failed(failure(index)) for index in range(1, RESTARTS_MAX + 2)]
    assert remedies == [Remedy.RESTART] * RESTARTS_MAX + [Remedy.FULL_SYNC]


def test_a_replica_that_is_in_sync_again_has_a_clean_repair_history() -> None:
    repairs = RepairPolicy()
    repairs.failed(failure(7))
    repairs.healed()
    assert repairs.reason == ""
    assert repairs.failed(failure(7)) is Remedy.RESTART


def test_a_failure_other_than_the_disk_is_not_retried() -> None:
    assert RepairPolicy().failed(failure(7, KeyError("x"))) is Remedy.FULL_SYNC
    repairs = RepairPolicy()
    assert repairs.failed(Diverged("at entry 9")) is Remedy.FULL_SYNC
    assert (repairs.divergences, repairs.apply_failures) == (1, 0)


def test_a_full_sync_does_not_help_a_full_disk() -> None:
    repairs = RepairPolicy()
    full = OSError(errno.ENOSPC, "no space")
    assert [repairs.failed(failure(7, full)) for _ in range(20)] == [Remedy.RESTART] * 20

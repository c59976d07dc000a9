"""Snapshots: the newest is read, and a power failure at any moment leaves the old or the new one."""

from __future__ import annotations

import pytest

from longhall.errors import Code, LonghallError
from longhall.log.layout import shard_directory, snapshot_path
from longhall.log.snapshots import read_snapshot, write_snapshot
from simulation.loop import PowerCut
from simulation.world import Simulation


def test_the_newest_is_read_and_the_old_one_is_removed() -> None:
    disk = Simulation(1).host("node").boot().disk
    assert read_snapshot(disk, 3) is None
    write_snapshot(disk, 3, 100, b"first")
    write_snapshot(disk, 3, 2_000, b"second")
    write_snapshot(disk, 4, 50, b"")
    assert read_snapshot(disk, 3) == (2_000, b"second")
    assert read_snapshot(disk, 4) == (50, b"")
    assert disk.list(shard_directory(3)) == [snapshot_path(3, 2_000).rpartition("/")[2]]
    write_snapshot(disk, 3, 2_000, b"again at the same place")
    assert read_snapshot(disk, 3) == (2_000, b"again at the same place")


@pytest.mark.parametrize("seed", range(5))
def test_a_power_failure_at_any_step_leaves_the_old_or_the_new_snapshot(seed: int) -> None:
    seen = set()
    for changes in range(40):
        host = Simulation(seed * 100 + changes).host("node")
        disk = host.boot().disk
        disk.make_directory("shards")
        disk.sync_directory("")
        write_snapshot(disk, 1, 10, b"old" * 700)
        host.faults.cut_after_changes = changes
        done = False
        try:
            write_snapshot(disk, 1, 20, b"new" * 900)
            done = True
            host.cut_power()
        except PowerCut:
            pass
        host.faults.cut_after_changes = -1
        disk = host.boot().disk
        found = read_snapshot(disk, 1)
        assert found in ((10, b"old" * 700), (20, b"new" * 900))
        assert found[0] == 20 or not done
        seen.add(found[0])
        write_snapshot(disk, 1, 30, b"after")
        assert read_snapshot(disk, 1) == (30, b"after")
        assert len(disk.list(shard_directory(1))) == 1, "the next snapshot removes the leftovers of a power failure"
        if done:
            break
    assert seen == {10, 20}


@pytest.mark.parametrize("spoil", ["cut", "flipped", "empty", "magic"])
def test_a_damaged_snapshot_is_refused_with_a_message(spoil: str) -> None:
    disk = Simulation(1).host("node").boot().disk
    write_snapshot(disk, 1, 10, b"body" * 50)
    file = disk.open(snapshot_path(1, 10))
    if spoil == "cut":
        file.truncate(100)
    elif spoil == "flipped":
        file.write_at(60, [b"!"])
    elif spoil == "empty":
        file.truncate(0)
    else:
        file.write_at(0, [b"WHAT"])
    with pytest.raises(LonghallError, match="restore") as caught:
        read_snapshot(disk, 1)
    assert caught.value.code is Code.STORAGE_DAMAGED


def test_a_snapshot_of_a_newer_version_is_refused() -> None:
    disk = Simulation(1).host("node").boot().disk
    write_snapshot(disk, 1, 10, b"body")
    disk.open(snapshot_path(1, 10)).write_at(4, [b"\x00\x09"])
    with pytest.raises(LonghallError, match="newer") as caught:
        read_snapshot(disk, 1)
    assert caught.value.code is Code.UNSUPPORTED_VERSION

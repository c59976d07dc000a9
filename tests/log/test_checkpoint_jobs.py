"""Background jobs of a checkpoint."""

from __future__ import annotations

from longhall.log.background_jobs import BACKGROUND_JOBS
from longhall.world.ports import Disk
from simulation.world import Simulation

remove = BACKGROUND_JOBS["remove"]


def test_large_files_are_removed_in_steps_and_small_ones_at_once() -> None:
    disk = Simulation(1).host("node").boot().disk
    disk.make_directory("partitions/a")
    for path, size in (("partitions/a/0.log", 2_500), ("partitions/a/0.index", 10), ("partitions/b.log", 600)):
        disk.open(path, create=True).write_at(0, [bytes(size)])
    paths = ["partitions/a", "partitions/gone", "partitions/b.log"]
    steps = 0
    while paths:
        before = _sizes(disk)
        paths = remove(disk, {"paths": paths, "bytes_max": 1_000})["left"]  # type: ignore[assignment]
        assert before - _sizes(disk) <= 1_000
        steps += 1
    assert steps == 4
    assert not disk.exists("partitions/a")
    assert not disk.exists("partitions/b.log")


def test_without_a_bound_everything_is_removed() -> None:
    disk = Simulation(1).host("node").boot().disk
    disk.make_directory("partitions/a")
    disk.open("partitions/a/0.log", create=True).write_at(0, [bytes(9_000)])
    assert remove(disk, {"paths": ["partitions/a", "partitions/a"]}) == {"left": []}
    assert disk.list("partitions") == []


def _sizes(disk: Disk) -> int:
    total = 0
    for path in ("partitions/a/0.log", "partitions/a/0.index", "partitions/b.log"):
        if disk.exists(path):
            total += disk.open(path).size()
    return total

"""The effects that a power cut may have on a disk, and those that it may not."""

from __future__ import annotations

import asyncio
import errno

import pytest

from longhall.world.ports import File
from simulation.loop import PowerCut
from simulation.world import Host, SimulatedWorld, Simulation


async def synced(world: SimulatedWorld, file: File) -> OSError | None:
    answer: asyncio.Future[OSError | None] = asyncio.get_running_loop().create_future()
    world.disk.sync([file], answer.set_result)
    return await answer


def after_cut(seed: int, before: object) -> tuple[Host, SimulatedWorld]:
    """Run `before` on a fresh host, cut the power, boot again."""
    simulation = Simulation(seed)
    host = simulation.host("node")
    world = host.boot()

    async def scenario() -> None:
        await world.process.start(before(world))  # type: ignore[operator]

    simulation.run(scenario())
    host.cut_power()
    return host, host.boot()


SEEDS = range(60)


def test_synced_bytes_survive_and_others_survive_in_part() -> None:
    async def write(world: SimulatedWorld) -> None:
        world.disk.make_directory("d")
        world.disk.sync_directory("")
        file = world.disk.open("d/a", create=True)
        file.write_at(0, [b"A" * 3000])
        assert await synced(world, file) is None
        world.disk.sync_directory("d")
        file.write_at(3000, [b"B" * 3000])
        file.write_at(0, [b"C" * 512])

    seen = set()
    for seed in SEEDS:
        _, world = after_cut(seed, write)
        content = world.disk.open("d/a").read_at(0, 10_000)
        assert content[512:3000] == b"A" * 2488
        assert content[:512] in (b"A" * 512, b"C" * 512)
        for start in range(3072, len(content), 512):
            assert set(content[start : start + 512]) in ({ord("B")}, {0}), "torn inside a sector"
        seen.add((content[:1], len(content), content.count(b"B")))
    assert len(seen) > 6  # Nothing, everything and mixtures were seen.


def test_a_name_may_vanish_without_a_sync_of_its_directory() -> None:
    async def create(world: SimulatedWorld) -> None:
        file = world.disk.open("a", create=True)
        file.write_at(0, [b"x"])
        assert await synced(world, file) is None

    outcomes = {after_cut(seed, create)[1].disk.exists("a") for seed in SEEDS}
    assert outcomes == {True, False}


def test_a_rename_happens_wholly_or_not_at_all() -> None:
    async def rename(world: SimulatedWorld) -> None:
        for name, data in (("old", b"old"), ("new", b"new")):
            file = world.disk.open(name, create=True)
            file.write_at(0, [data])
            world.disk.sync_now(file)
        world.disk.sync_directory("")
        world.disk.rename("new", "old")

    outcomes = set()
    for seed in SEEDS:
        _, world = after_cut(seed, rename)
        outcomes.add((tuple(world.disk.list("")), world.disk.open("old").read_at(0, 9)))
    assert outcomes == {(("new", "old"), b"old"), (("old",), b"new")}


def test_sigkill_loses_nothing_that_was_written() -> None:
    simulation = Simulation(1)
    host = simulation.host("node")
    file = host.boot().disk.open("a", create=True)
    file.write_at(0, [b"written"])
    host.kill()
    assert host.boot().disk.open("a").read_at(0, 99) == b"written"


def test_writes_of_a_failed_sync_are_not_written_by_a_later_sync() -> None:
    async def fail(world: SimulatedWorld) -> None:
        file = world.disk.open("a", create=True)
        world.disk.sync_directory("")
        file.write_at(0, [b"x" * 4096])
        host = world.disk
        host._faults.sync_error_chance = 1.0
        error = await synced(world, file)
        assert error is not None
        assert error.errno == errno.EIO
        host._faults.sync_error_chance = 0.0
        assert await synced(world, file) is None
        assert file.read_at(0, 5000) == b"x" * 4096  # It reads as if it were written.

    contents = {after_cut(seed, fail)[1].disk.open("a").read_at(0, 5000) for seed in SEEDS}
    assert any(content != b"x" * 4096 for content in contents)


def test_the_disk_is_full_at_any_byte() -> None:
    host = Simulation(1).host("node")
    disk = host.boot().disk
    host.faults.capacity_bytes = 10_000
    file = disk.open("a", create=True)
    file.allocate(0, 4000)
    assert disk.free_bytes() == 6000
    file.write_at(0, [b"x" * 4000])
    other = disk.open("b", create=True)
    with pytest.raises(OSError) as caught:
        other.write_at(0, [b"y" * 6001])
    assert caught.value.errno == errno.ENOSPC
    assert other.size() == 6000
    assert disk.free_bytes() == 0
    with pytest.raises(OSError):
        file.allocate(0, 4001)
    file.write_at(100, [b"z" * 100])  # Bytes in allocated space are written.
    disk.remove("b")
    assert disk.free_bytes() == 6000


def test_the_power_is_cut_at_a_counted_change() -> None:
    simulation = Simulation(1)
    host = simulation.host("node")
    world = host.boot()
    job_result: list[str] = []

    async def victim() -> None:
        file = world.disk.open("a", create=True)
        host.faults.cut_after_changes = 1
        file.write_at(0, [b"first"])
        try:
            file.write_at(5, [b"second"])
        except Exception:
            job_result.append("handled")
        job_result.append("after")

    async def scenario() -> None:
        world.process.start(victim())
        await asyncio.sleep(1)

    simulation.run(scenario())
    assert job_result == []
    assert host.process is not None
    assert not host.process.alive
    with pytest.raises(PowerCut):
        world.disk.list("")
    simulation.close()


def test_a_flipped_bit_stays_flipped() -> None:
    host = Simulation(1).host("node")
    disk = host.boot().disk
    file = disk.open("a", create=True)
    file.write_at(0, [b"abc"])
    disk.sync_now(file)
    disk.sync_directory("")
    dict(host.platter.inodes())["a"].flip(1, 0x01)
    assert file.read_at(0, 3) == b"acc"
    host.cut_power()
    assert host.boot().disk.open("a").read_at(0, 3) == b"acc"


def written(world: SimulatedWorld, path: str, data: bytes) -> File:
    """A file among those that may lose writes, written and synced with its names."""
    world.disk.make_directory("wal")
    file = world.disk.open(path, create=True)
    file.write_at(0, [data])
    world.disk.sync_now(file)
    world.disk.sync_directories(["wal", ""])
    return file


def test_a_read_that_fails_says_so_and_changes_nothing() -> None:
    host = Simulation(1).host("node")
    file = written(host.boot(), "wal/a", b"A" * 100)
    host.faults.read_error_chance = 1.0
    for read in (file.read_at, file.read_at_nowait):
        with pytest.raises(OSError, match="the disk failed") as failed:
            read(0, 100)
        assert failed.value.errno == errno.EIO
    host.faults.heal()
    assert file.read_at(0, 100) == b"A" * 100


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EIO, errno.EMFILE])
def test_existing_files_accept_writes_while_none_can_be_created(number: int) -> None:
    host = Simulation(1).host("node")
    world = host.boot()
    file = written(world, "wal/a", b"A")
    host.faults.create_errno = number
    for make in (lambda: world.disk.open("wal/b", create=True), lambda: world.disk.make_directory("shards")):
        with pytest.raises(OSError, match="nothing new") as failed:
            make()
        assert failed.value.errno == number
    world.disk.make_directory("wal")
    file.write_at(1, [b"B"])
    world.disk.sync_now(file)
    assert world.disk.open("wal/a", create=True).read_at(0, 2) == b"AB"
    assert world.disk.list("") == ["wal"]


@pytest.mark.parametrize("evicted", [True, False])
def test_a_lost_write_is_readable_until_the_page_cache_is_evicted(evicted: bool) -> None:
    host = Simulation(1).host("node")
    world = host.boot()
    file = written(world, "wal/a", b"A" * 600)
    host.faults.lost_write_chance = 1.0
    file.write_at(500, [b"B" * 200])
    world.disk.sync_now(file)
    assert file.read_at(0, 700) == b"A" * 500 + b"B" * 200
    if evicted:
        host.evict()
    else:
        host.cut_power()
        file = host.boot().disk.open("wal/a")
    assert file.read_at(0, 700) == b"A" * 600 + bytes(100), "the old bytes, and zeros where the file grew"


def test_a_misdirected_write_damages_synced_bytes_and_is_missing_in_its_place() -> None:
    places: set[tuple[str, int]] = set()
    for seed in range(20):
        host = Simulation(seed).host("node")
        world = host.boot()
        written(world, "wal/a", b"A" * 2048)
        file = written(world, "wal/b", b"B" * 2048)
        host.faults.misdirected_write_chance = 1.0
        file.write_at(0, [b"C" * 512])
        world.disk.sync_now(file)
        assert file.read_at(0, 512) == b"C" * 512
        host.evict()
        for name in ("wal/a", "wal/b"):
            content = world.disk.open(name).read_at(0, 4096)
            assert len(content) == 2048
            if b"C" in content:
                places.add((name, content.index(b"C")))
    assert len(places) > 4
    assert {name for name, _ in places} == {"wal/a", "wal/b"}


def test_a_copy_of_a_platter_is_independent() -> None:
    host = Simulation(1).host("node")
    world = host.boot()
    file = written(world, "wal/a", b"before")
    copy = host.platter.copy()
    file.write_at(0, [b"behind"])
    host.kill()
    host.platter = copy
    assert host.boot().disk.open("wal/a").read_at(0, 10) == b"before"

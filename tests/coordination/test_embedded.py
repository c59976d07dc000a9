"""The embedded tree: acknowledged commits survive a crash, and failed writes change nothing."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from pathlib import Path
from typing import Any

import pytest

from longhall.coordination import tree_file
from longhall.coordination.coordinator import TreeCoordinator
from longhall.coordination.embedded import EmbeddedStore, EmbeddedTree, embedded_coordinator
from longhall.coordination.ports import Conflict, Ids, MemberDescription, OutcomeUnknown, ShardState
from longhall.coordination.tree import Create, Put
from longhall.errors import Code, LonghallError
from longhall.world.real.world import real_world
from simulation.world import Host, Simulation

ME = MemberDescription(node_id=1, directory="d")


def on(directory: Path, scenario: Any) -> None:
    """Run a scenario with the coordinator of a data directory, as one process would."""
    world = real_world(str(directory))

    async def begin() -> None:
        coordinator = embedded_coordinator(world.disk)
        await coordinator.start()
        await scenario(coordinator)

    try:
        asyncio.run(begin())
    finally:
        world.close()


def test_everything_but_sessions_survives_a_restart(tmp_path: Path) -> None:
    generations: list[int] = []
    state = ShardState(shard=3, leader=1, epoch=4, replicas=(1,), in_sync=(1,))

    async def first(coordinator: TreeCoordinator) -> None:
        assert await coordinator.cluster_id("hall") == "hall"
        generations.append((await coordinator.register(ME)).generation)
        assert (await coordinator.campaign(1)).epoch == 1
        await coordinator.change_shard(None, state)
        assert await coordinator.next_epoch() == 1
        assert await coordinator.take_ids(Ids.PRODUCERS, 10) == range(10)
        await coordinator.mark_drain(9)

    async def second(coordinator: TreeCoordinator) -> None:
        assert await coordinator.cluster_id("other") == "hall"
        assert await coordinator.members() == {}
        assert await coordinator.manager() is None
        generations.append((await coordinator.register(ME)).generation)
        assert (await coordinator.campaign(1)).epoch == 2
        found = await coordinator.shard(3)
        assert found is not None
        assert (found.leader, found.epoch, found.version) == (1, 4, 0)
        assert await coordinator.next_epoch() == 2
        assert await coordinator.take_ids(Ids.PRODUCERS, 10) == range(10, 20)
        assert await coordinator.drains() == {9}

    on(tmp_path, first)
    on(tmp_path, second)
    assert generations[1] > generations[0]


def test_a_damaged_tree_is_refused(tmp_path: Path) -> None:
    async def write(coordinator: TreeCoordinator) -> None:
        await coordinator.cluster_id("hall")

    on(tmp_path, write)
    file = tmp_path / tree_file.PATH
    whole = file.read_bytes()
    for damaged in (whole[:10], whole[:-1], whole[:-1] + bytes([whole[-1] ^ 1])):
        file.write_bytes(damaged)
        with pytest.raises(LonghallError) as refused:
            on(tmp_path, write)
        assert refused.value.code is Code.STORAGE_DAMAGED
    file.write_bytes(whole[:4] + b"\x00\x09" + whole[6:])
    with pytest.raises(LonghallError) as newer:
        on(tmp_path, write)
    assert newer.value.code is Code.UNSUPPORTED_VERSION


def test_a_commit_is_finished_although_its_caller_is_cancelled(tmp_path: Path) -> None:
    async def scenario(coordinator: TreeCoordinator) -> None:
        change = asyncio.ensure_future(coordinator.change_shard(None, ShardState(shard=1, epoch=1)))
        await asyncio.sleep(0)
        change.cancel()
        with pytest.raises(asyncio.CancelledError):
            await change
        # The next commit waits for it.
        with pytest.raises(Conflict):
            await coordinator.change_shard(None, ShardState(shard=1, epoch=1))

    on(tmp_path, scenario)


@pytest.fixture
def host() -> Any:
    simulation = Simulation(3)
    yield simulation.host("node")
    simulation.close()


def started(host: Host, scenario: Coroutine[Any, Any, None]) -> None:
    """Run a scenario in the host's process until either ends."""
    process = host.process
    assert process is not None

    async def watch() -> None:
        task = process.start(scenario)
        await asyncio.wait({task, process.ended}, return_when=asyncio.FIRST_COMPLETED)
        if task.done():
            task.result()

    host.simulation.run(watch())


def test_no_power_failure_loses_a_commit(host: Host) -> None:
    """A power failure at every change of the disk: every answered commit is there, and at most one more."""
    answered = 0
    cuts = 0
    for changes in range(1, 120):
        disk = host.boot().disk
        store = EmbeddedStore(disk)
        tree = EmbeddedTree(store)
        node = store.nodes.get("/count")
        found = 0 if node is None else int(node.data)
        assert found in (answered, answered + 1)
        host.faults.cut_after_changes = changes % 17 + 1

        async def count(tree: EmbeddedTree = tree, found: int = found) -> None:
            nonlocal answered
            answered = found
            await tree.start(lambda session: None)
            if await tree.get("/count") is None:
                await tree.commit(Create("/count", b"0"))
            while answered < found + 6:
                node = await tree.get("/count")
                assert node is not None
                await tree.commit(Put("/count", b"%d" % (answered + 1), node.version))
                answered += 1

        started(host, count())
        assert host.process is not None
        cuts += not host.process.alive
        host.faults.cut_after_changes = -1
        host.kill()
    assert cuts > 50
    assert answered > 100


def test_a_full_disk_changes_nothing_and_later_commits_succeed(host: Host) -> None:
    disk = host.boot().disk
    tree = EmbeddedTree(EmbeddedStore(disk))

    async def fill() -> None:
        await tree.start(lambda session: None)
        await tree.commit(Create("/a", b"one"))
        host.faults.capacity_bytes = 0
        with pytest.raises(OutcomeUnknown, match="could not be written"):
            await tree.commit(Put("/a", b"two", 0))
        node = await tree.get("/a")
        assert node is not None
        assert node.data == b"one"
        host.faults.capacity_bytes = None
        assert await tree.commit(Put("/a", b"three", 0)) == [1]

    started(host, fill())
    assert EmbeddedStore(disk).nodes.get("/a").data == b"three"  # type: ignore[union-attr]


def test_after_a_failed_sync_every_outcome_is_unknown(host: Host) -> None:
    disk = host.boot().disk
    tree = EmbeddedTree(EmbeddedStore(disk))

    async def fail() -> None:
        await tree.start(lambda session: None)
        await tree.commit(Create("/a", b"one"))
        host.faults.sync_error_chance = 1.0
        with pytest.raises(OutcomeUnknown, match="made durable"):
            await tree.commit(Put("/a", b"two", 0))
        host.faults.sync_error_chance = 0.0
        with pytest.raises(OutcomeUnknown, match="restart the process"):
            await tree.commit(Put("/a", b"two", 0))

    started(host, fail())
    host.cut_power()
    assert EmbeddedStore(host.boot().disk).nodes.get("/a").data == b"one"  # type: ignore[union-attr]

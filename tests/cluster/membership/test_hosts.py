"""Hosts that come and go, with whole nodes in the simulated world: asked for at the leader, done by the cluster."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from longhall.cluster.membership.hosts import Hosts
from longhall.cluster.replication.full_sync import SET_ASIDE
from longhall.coordination.ports import ShardState
from longhall.errors import Code, LonghallError
from simulation.replicas.host_names import name_of
from simulation.replicas.simulated_cluster import SimulatedCluster
from simulation.world import Simulation

SECONDS = 30.0

Script = Callable[[SimulatedCluster], Coroutine[Any, Any, None]]
Errand = Callable[[Hosts], Coroutine[Any, Any, str]]


def play(script: Script, hosts: int = 4, seed: int = 1) -> None:
    """Start so many nodes, wait until three of them keep the hall, and run the script."""
    simulation = Simulation(seed)
    fleet = SimulatedCluster(simulation, hosts)

    async def whole() -> None:
        fleet.start()
        await fleet.up(SECONDS)
        await script(fleet)

    simulation.run(whole())
    simulation.close()


async def ask(fleet: SimulatedCluster, errand: Errand) -> str:
    """What the leader says to it."""
    leader = fleet.leader()
    assert leader is not None
    assert leader.cluster_node is not None
    process = fleet.host(leader.cluster_node.place.node).process
    assert process is not None
    return await process.start(errand(leader.cluster_node.hosts))


async def until(holds: Callable[[], bool]) -> None:
    """Wait in simulated time."""
    for _ in range(int(SECONDS * 100)):
        if holds():
            return
        await asyncio.sleep(0.01)
    raise AssertionError("in vain")


async def refusal(fleet: SimulatedCluster, errand: Errand) -> LonghallError:
    before = record(fleet)
    with pytest.raises(LonghallError) as caught:
        await ask(fleet, errand)
    assert record(fleet) == before
    return caught.value


def record(fleet: SimulatedCluster) -> ShardState:
    leader = fleet.leader()
    assert leader is not None
    assert leader.cluster_node is not None
    return leader.cluster_node.session.state


def spare(fleet: SimulatedCluster) -> int:
    """The one of four that keeps nothing."""
    return next(node for node in fleet.numbers if node not in record(fleet).replicas)


def test_a_host_is_added_and_the_leader_drained() -> None:
    async def script(fleet: SimulatedCluster) -> None:
        fourth, first = spare(fleet), record(fleet).leader
        assert "fetches everything" in await ask(fleet, lambda hosts: hosts.add(fourth))
        await asyncio.sleep(0.5)
        await fleet.up(SECONDS)
        assert sorted(record(fleet).in_sync) == [1, 2, 3, 4]
        assert "already" in await ask(fleet, lambda hosts: hosts.add(fourth))
        await ask(fleet, lambda hosts: hosts.drain(first))
        await asyncio.sleep(0.5)
        await fleet.up(SECONDS)
        assert record(fleet).leader not in (0, first)
        assert sorted(record(fleet).replicas) == sorted({1, 2, 3, 4} - {first})
        await ask(fleet, lambda hosts: hosts.add(first))  # And back again.
        await asyncio.sleep(0.5)
        await fleet.up(SECONDS)
        assert sorted(record(fleet).in_sync) == [1, 2, 3, 4]

    play(script)


def test_another_host_takes_the_copy_of_one_that_is_drained() -> None:
    async def script(fleet: SimulatedCluster) -> None:
        fourth = spare(fleet)
        gone = next(node for node in record(fleet).replicas if node != record(fleet).leader)
        await ask(fleet, lambda hosts: hosts.drain(gone))
        await asyncio.sleep(0.5)
        await fleet.up(SECONDS)
        assert sorted(record(fleet).in_sync) == sorted({1, 2, 3, 4} - {gone})
        assert fourth in record(fleet).in_sync

    play(script)


def test_a_copy_moves_and_so_does_the_lead() -> None:
    async def script(fleet: SimulatedCluster) -> None:
        fourth, first = spare(fleet), record(fleet).leader
        await ask(fleet, lambda hosts: hosts.move(first, fourth))
        await asyncio.sleep(0.5)
        await fleet.up(SECONDS)
        state = record(fleet)
        assert sorted(state.in_sync) == sorted({1, 2, 3, 4} - {first})
        assert state.leader != first
        await ask(fleet, lambda hosts: hosts.lead(fourth))
        await asyncio.sleep(0.5)
        await fleet.up(SECONDS)
        assert record(fleet).leader == fourth
        assert record(fleet).epoch > state.epoch

    play(script)


def test_a_node_whose_copy_is_damaged_joins_though_others_have_its_copies() -> None:
    async def script(fleet: SimulatedCluster) -> None:
        fleet.damage_allowed = True
        fourth = spare(fleet)
        gone = next(node for node in record(fleet).replicas if node != record(fleet).leader)
        fleet.down.add(gone)
        await fleet.stop(gone)
        await ask(fleet, lambda hosts: hosts.move(gone, fourth))
        await until(lambda: gone not in record(fleet).replicas and fourth in record(fleet).in_sync)
        for path, inode in fleet.host(gone).platter.inodes():
            if path.lstrip("/").startswith("shards") and inode.content:
                inode.flip(len(inode.content) // 2, 1)
        fleet.down.discard(gone)
        await fleet.up(SECONDS)
        assert any(path.lstrip("/").startswith(SET_ASIDE) for path, _ in fleet.host(gone).platter.inodes())
        await asyncio.sleep(1.0)  # Until the leader has heard of it.
        await ask(fleet, lambda hosts: hosts.add(gone))
        await until(lambda: gone in record(fleet).in_sync)

    play(script)


def test_the_number_of_copies_is_changed() -> None:
    async def script(fleet: SimulatedCluster) -> None:
        for factor in (4, 2):
            await ask(fleet, lambda hosts, factor=factor: hosts.set_factor(factor))  # type: ignore[misc]
            await asyncio.sleep(0.5)
            await fleet.up(SECONDS)
            assert len(record(fleet).replicas) == factor

    play(script)


def test_what_cannot_be_is_refused_and_changes_nothing() -> None:
    async def script(fleet: SimulatedCluster) -> None:
        leader = record(fleet).leader
        assert (await refusal(fleet, lambda hosts: hosts.add(9))).code is Code.UNKNOWN_MEMBER
        assert (await refusal(fleet, lambda hosts: hosts.lead(9))).code is Code.UNKNOWN_MEMBER
        assert (await refusal(fleet, lambda hosts: hosts.set_factor(1))).code is Code.INVALID_REPLICATION
        assert "there are 3 hosts" in str(await refusal(fleet, lambda hosts: hosts.set_factor(4)))
        assert "keeps the hall already" in str(await refusal(fleet, lambda hosts: hosts.move(1, 2)))
        await ask(fleet, lambda hosts: hosts.drain(leader))
        await asyncio.sleep(0.5)
        await fleet.up(SECONDS)
        left = record(fleet).replicas
        assert len(left) == 2
        refused = await refusal(fleet, lambda hosts: hosts.drain(left[0]))
        assert str(refused).startswith(f"without node {left[0]} 1 host would keep the hall, and in_sync_min is 2")
        assert "does not keep the hall" in str(await refusal(fleet, lambda hosts: hosts.lead(leader)))

    play(script, hosts=3)


def test_a_leader_that_is_stopped_hands_over_first() -> None:
    async def script(fleet: SimulatedCluster) -> None:
        first, epoch = record(fleet).leader, record(fleet).epoch
        loop = asyncio.get_running_loop()
        fleet.down.add(first)
        stopping = asyncio.ensure_future(fleet.stop(first))
        began = loop.time()
        while loop.time() - began < 1.0:  # Of simulated time.
            await asyncio.sleep(0.005)
            if fleet.leader() is not None and record(fleet).leader != first:
                break
        assert record(fleet).epoch > epoch
        assert first not in record(fleet).in_sync
        await stopping
        fleet.down.clear()
        await fleet.up(SECONDS)

    play(script, hosts=3)


def test_a_follower_that_is_killed_is_not_waited_for_though_it_managed() -> None:
    async def script(fleet: SimulatedCluster) -> None:
        leader = fleet.leader()
        assert leader is not None
        assert leader.cluster_node is not None
        session = leader.cluster_node.session
        loop = asyncio.get_running_loop()
        manager, began = session.controller, loop.time()
        assert manager != session.node
        fleet.down.add(manager)
        fleet.host(manager).kill()
        while loop.time() - began < 1.2:  # Of simulated time; whoever is only late has longer.
            await asyncio.sleep(0.01)
            if manager not in session.state.in_sync:
                break
        assert manager not in session.state.in_sync

    play(script, hosts=3)


def test_a_leader_whose_machine_is_gone_is_replaced_as_soon_as_its_session_ends() -> None:
    async def script(fleet: SimulatedCluster) -> None:
        leader = fleet.leader()
        assert leader is not None
        assert leader.cluster_node is not None
        first = leader.cluster_node.session.node
        sessions = [
            node.cluster_node.session
            for number, node in fleet.nodes.items()
            if node.cluster_node is not None and number != first
        ]
        for session in sessions:
            for one, other in ((name_of(first), name_of(session.node)), (name_of(session.node), name_of(first))):
                fleet.simulation.fabric.cut(one, other)
        fleet.cut_coordinator(first)
        loop = asyncio.get_running_loop()
        await until(lambda: not any(first in session.living for session in sessions))
        began = loop.time()
        await until(lambda: not any(session.state.leader in (0, first) for session in sessions))
        assert loop.time() - began < 1.2  # Of simulated time: nobody waits for answers of a machine that gives none.

    for seed in range(1, 4):
        play(script, hosts=3, seed=seed)

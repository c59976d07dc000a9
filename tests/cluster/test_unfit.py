"""A leader that can no longer do its work leaves it to another: three whole nodes in the simulated world."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from longhall.node.assembly import Node
from simulation.replicas.fleet import Fleet
from simulation.world import Simulation


def play(script: Callable[[Fleet, int], Coroutine[Any, Any, None]]) -> None:
    """Start three nodes, wait until they are whole, and run the script with the number of the leader."""
    simulation = Simulation(1)
    fleet = Fleet(simulation)

    async def whole() -> None:
        fleet.start()
        await fleet.up(60)
        await script(fleet, fleet.leader_number())

    simulation.run(whole())
    simulation.close()


async def other_leader(fleet: Fleet, than: int) -> Node:
    for _ in range(600):
        leader = fleet.leader()
        if leader is not None and leader is not fleet.nodes.get(than):
            return leader
        await asyncio.sleep(0.05)
    raise AssertionError("nobody else leads")


def test_a_leader_whose_disk_is_full_follows_until_it_is_not() -> None:
    async def script(fleet: Fleet, full: int) -> None:
        fleet.host(full).faults.capacity_bytes = 1
        leader = await other_leader(fleet, full)
        await asyncio.sleep(5)
        assert fleet.leader() is leader
        fleet.host(full).faults.capacity_bytes = None
        await fleet.up(60)

    play(script)


def test_leadership_does_not_go_round_when_all_disks_are_full() -> None:
    async def script(fleet: Fleet, leader: int) -> None:
        for number, node in fleet.nodes.items():
            assert node.cluster_node is not None
            if number != leader:
                node.hall.storage_full = True
                setattr(node.cluster_node, "condition", lambda: "full")  # noqa: B010
        await asyncio.sleep(1)
        cluster_node = fleet.nodes[leader].cluster_node
        assert cluster_node is not None
        setattr(cluster_node, "condition", lambda: "full")  # noqa: B010
        await asyncio.sleep(10)
        assert fleet.leader_number() == leader
        assert fleet.restarts == 0

    play(script)


def test_a_leader_that_cannot_put_a_message_right_fetches_everything_from_the_next() -> None:
    async def script(fleet: Fleet, damaged: int) -> None:
        cluster_node = fleet.nodes[damaged].cluster_node
        assert cluster_node is not None
        assert cluster_node.member is not None
        cluster_node.member.repair.is_unfit = True  # Others have it in other bytes, or the disk does not take it.
        await other_leader(fleet, damaged)
        await fleet.up(60)
        place = fleet.nodes[damaged].cluster_node
        assert place is not None
        assert place.place.fetched

    play(script)

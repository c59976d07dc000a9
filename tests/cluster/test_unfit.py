"""A leader that is not eligible any more hands over to another: three whole nodes in the simulated world."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from longhall.node.assembly import Node
from simulation.replicas.simulated_cluster import SimulatedCluster
from simulation.world import Simulation


def play(script: Callable[[SimulatedCluster, int], Coroutine[Any, Any, None]]) -> None:
    """Start three nodes, wait until all are in sync, and run the script with the number of the leader."""
    simulation = Simulation(1)
    cluster = SimulatedCluster(simulation)

    async def whole() -> None:
        cluster.start()
        await cluster.up(60)
        await script(cluster, cluster.leader_number())

    simulation.run(whole())
    simulation.close()


async def other_leader(cluster: SimulatedCluster, than: int) -> Node:
    for _ in range(600):
        leader = cluster.leader()
        if leader is not None and leader is not cluster.nodes.get(than):
            return leader
        await asyncio.sleep(0.05)
    raise AssertionError("no other node leads")


def test_a_leader_with_a_full_disk_follows_until_it_has_space() -> None:
    async def script(cluster: SimulatedCluster, full: int) -> None:
        cluster.host(full).faults.capacity_bytes = 1
        leader = await other_leader(cluster, full)
        await asyncio.sleep(5)
        assert cluster.leader() is leader
        cluster.host(full).faults.capacity_bytes = None
        await cluster.up(60)

    play(script)


def test_leadership_does_not_rotate_when_all_disks_are_full() -> None:
    async def script(cluster: SimulatedCluster, leader: int) -> None:
        for number, node in cluster.nodes.items():
            assert node.cluster_node is not None
            if number != leader:
                node.hall.storage_full = True
                setattr(node.cluster_node, "condition", lambda: "full")  # noqa: B010
        await asyncio.sleep(1)
        cluster_node = cluster.nodes[leader].cluster_node
        assert cluster_node is not None
        setattr(cluster_node, "condition", lambda: "full")  # noqa: B010
        await asyncio.sleep(10)
        assert cluster.leader_number() == leader
        assert cluster.restarts == 0

    play(script)


def test_a_leader_that_cannot_repair_a_message_does_a_full_sync_from_the_next_leader() -> None:
    async def script(cluster: SimulatedCluster, damaged: int) -> None:
        cluster_node = cluster.nodes[damaged].cluster_node
        assert cluster_node is not None
        assert cluster_node.member is not None
        # The other replicas have different bytes there, or the disk refuses the write.
        cluster_node.member.repair.is_unfit = True
        await other_leader(cluster, damaged)
        await cluster.up(60)
        place = cluster.nodes[damaged].cluster_node
        assert place is not None
        assert place.place.fetched

    play(script)

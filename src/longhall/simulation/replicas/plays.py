"""Scenarios of a replicated log, from empty disks to the verdict.

replicas    three to five members under every fault there is, several at a time
elections   leaders die, stop and are cut off in quick succession
quarantine  bits flip in the log or the snapshots of one member after another, between lesser faults
"""

from __future__ import annotations

import asyncio
from typing import Final

from longhall.simulation.replicas.cluster import Cluster
from longhall.simulation.replicas.faults import Faults
from longhall.simulation.replicas.menus import DAMAGE, ELECTIONS, EVERYTHING
from longhall.simulation.scenarios.machine import Starter
from longhall.simulation.scenarios.played import Played, Scenario
from longhall.simulation.world import Simulation

RAGE_S: Final = 180.0
LOOK_S: Final = 0.25
WRITERS: Final = 4
SIZES: Final = (3, 4, 5)


async def replicas(simulation: Simulation, starter: Starter) -> Played:
    return await play(simulation, EVERYTHING, 3.0, size=size_of(simulation))


async def elections(simulation: Simulation, starter: Starter) -> Played:
    return await play(simulation, ELECTIONS, 4.0)


async def quarantine(simulation: Simulation, starter: Starter) -> Played:
    return await play(simulation, DAMAGE, 2.0, at_once=False)


def size_of(simulation: Simulation) -> int:
    """Three to five nodes, as the seed has it."""
    return simulation.stream("size").choice(SIZES)


async def play(
    simulation: Simulation, menu: tuple[str, ...], calm_s: float, *, size: int = 3, at_once: bool = True
) -> Played:
    """From empty disks to the verdict."""
    cluster = Cluster(simulation, size)
    cluster.truth.damage_allowed = "damage" in menu
    faults = Faults(cluster, menu)
    cluster.start()
    await cluster.make_topic()
    for number in range(WRITERS):
        cluster.tasks.append(asyncio.ensure_future(cluster.write(number)))
    cluster.tasks.append(asyncio.ensure_future(cluster.declare()))
    raging = asyncio.ensure_future(faults.rage(RAGE_S * simulation.share, calm_s, at_once=at_once))
    while not raging.done():
        await cluster.pass_time(LOOK_S)
    await raging
    faults.heal()
    await cluster.settle()
    cluster.check_contents()
    boots = sum(cluster.host(node).boots for node in cluster.numbers)
    seconds = asyncio.get_running_loop().time()
    acknowledged = cluster.truth.acknowledgements
    return Played(seconds, cluster.sends, acknowledged, boots, faults.happened, simulation.trace.digest())


REPLICA_SCENARIOS: Final[dict[str, Scenario]] = {
    "replicas": replicas,
    "elections": elections,
    "quarantine": quarantine,
}

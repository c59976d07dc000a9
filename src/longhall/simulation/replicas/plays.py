"""Scenarios of a replicated log, from empty disks to the verdict.

replicas    three members under every fault there is, several at a time
elections   leaders die, stop and are cut off in quick succession
quarantine  bits flip in the log or the snapshots of one member after another, between lesser faults
"""

from __future__ import annotations

import asyncio
from typing import Final

from longhall.simulation.replicas.cluster import Cluster
from longhall.simulation.replicas.faults import ALL_MENU, Faults
from longhall.simulation.replicas.node import NODES
from longhall.simulation.scenarios.machine import Starter
from longhall.simulation.scenarios.played import Played, Scenario
from longhall.simulation.world import Simulation

RAGE_S: Final = 180.0
LOOK_S: Final = 0.25
WRITERS: Final = 4
ELECTION_MENU: Final = (
    "kill_the_leader",
    "pause_the_leader",
    "cut_the_leader_from_followers",
    "cut_from_the_coordinator",
    "kill_in_quick_succession",
    "power_cut_of_all",
    "power_cut_of_all_on_slow_disks",
    "cut_one_way",
    "slow_disk",
)


async def replicas(simulation: Simulation, starter: Starter) -> Played:
    return await _play(simulation, ALL_MENU, 3.0)


async def elections(simulation: Simulation, starter: Starter) -> Played:
    return await _play(simulation, ELECTION_MENU, 4.0)


async def quarantine(simulation: Simulation, starter: Starter) -> Played:
    return await _play(simulation, ("damage", "damage", "reset", "slow_disk"), 2.0, at_once=False)


async def _play(simulation: Simulation, menu: tuple[str, ...], calm_s: float, *, at_once: bool = True) -> Played:
    cluster = Cluster(simulation)
    cluster.truth.damage_allowed = "damage" in menu
    faults = Faults(cluster, menu)
    cluster.start()
    await cluster.make_topic()
    for number in range(WRITERS):
        cluster.tasks.append(asyncio.ensure_future(cluster.write(number)))
    cluster.tasks.append(asyncio.ensure_future(cluster.declare()))
    raging = asyncio.ensure_future(faults.rage(RAGE_S, calm_s, at_once=at_once))
    while not raging.done():
        await cluster.pass_time(LOOK_S)
    await raging
    faults.heal()
    await cluster.settle()
    cluster.check_contents()
    boots = sum(cluster.host(node).boots for node in NODES)
    seconds = asyncio.get_running_loop().time()
    acknowledged = cluster.truth.acknowledgements
    return Played(seconds, cluster.sends, acknowledged, boots, faults.happened, simulation.trace.digest())


REPLICA_SCENARIOS: Final[dict[str, Scenario]] = {
    "replicas": replicas,
    "elections": elections,
    "quarantine": quarantine,
}

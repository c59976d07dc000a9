"""Scenarios with quorum acknowledgements on a cluster that loses one node at a time.

quorums     two of three replicas acknowledge; links lag, leaders die: no acknowledged message is lost
"""

from __future__ import annotations

import asyncio
import random
from typing import Final

from simulation.replicas.host_names import name_of
from simulation.scenarios.cluster_run import FAULTS_S, ClusterRun
from simulation.scenarios.machine import Starter
from simulation.scenarios.run_result import RunResult
from simulation.world import Simulation

CALM_S: Final = 2.0
LAG_S: Final = (0.2, 1.0)  # A replica that lags longer leaves the in-sync set.
MENU: Final = (
    "kill_the_leader",
    "kill_the_leader",
    "pause_the_leader",
    "stop_cleanly",
    "power_cut",
    "pause_one",
    "reset",
)


async def quorums(simulation: Simulation, starter: Starter) -> RunResult:
    run = ClusterRun(simulation, MENU)
    places = await run.begin(3, {"longhall.acknowledge": "quorum"})
    run.write(places, plain=1, idempotent=1, transactional=0, pause_s=0.15)
    striking = asyncio.ensure_future(_strike(run, simulation.stream("quorums")))
    return await run.end_after(striking)


async def _strike(run: ClusterRun, chance: random.Random) -> None:
    """Stop one node at a time, the next one when every replica is in sync again.

    Another replica may be cut off from the leader just before, for too short a time to leave the in-sync set: messages
    of that time are on two replicas only.
    """
    loop = asyncio.get_running_loop()
    fabric = run.simulation.fabric
    ends_at = loop.time() + FAULTS_S * run.simulation.share
    while loop.time() < ends_at:
        await run.cluster.wait_until_settled()
        await asyncio.sleep(chance.expovariate(1 / CALM_S))
        leader = run.cluster.leader_number()
        link = name_of(leader), name_of(chance.choice([node for node in run.cluster.numbers if node != leader]))
        fabric.cut(*link)
        await asyncio.sleep(chance.uniform(*LAG_S))
        await run.faults.strike(chance.choice(MENU))
        fabric.heal(*link)

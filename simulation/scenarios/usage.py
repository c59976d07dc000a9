"""Scenarios of usage: what was counted is what the log has, on every replica, through every death of a leader.

cluster-usage    Kafka producers send small and large batches to three nodes, while leaders die and the power fails
"""

from __future__ import annotations

import asyncio
from typing import Final

from simulation.checkers.usage import check_usage
from simulation.checkers.violation import demand
from simulation.replicas.fault_menus import LEADERS
from simulation.scenarios.cluster_run import ClusterRun
from simulation.scenarios.machine import Starter
from simulation.scenarios.run_result import RunResult, Scenario
from simulation.world import Simulation

READY_S: Final = 20.0
LARGE_CHANCE: Final = 0.1
MENU: Final = (*LEADERS, "power_cut_of_all", "power_cut_of_all")


async def cluster_usage(simulation: Simulation, starter: Starter) -> RunResult:
    run = ClusterRun(simulation, MENU)
    run.cluster.counts_usage = True
    places = await run.begin(3)
    run.context.large_chance = LARGE_CHANCE
    run.write(places, plain=1, idempotent=2, transactional=0, pause_s=0.3)
    played = await run.end(6.0)
    await run.cluster.up(READY_S)
    await asyncio.sleep(1)
    leading = run.cluster.serving()
    assert leading is not None
    process, node = leading
    counted = 0

    async def check() -> None:
        nonlocal counted
        counted = await check_usage(node.hall, "events")

    await process.start(check())
    demand(counted > 0, "no message was counted")
    totals = [one.hall.usage.totals.snapshot() for one in run.cluster.nodes.values()]
    demand(all(one[2:6] == totals[0][2:6] for one in totals), f"replicas differ in their usage: {totals}")
    return played


USAGE_SCENARIOS: Final[dict[str, Scenario]] = {"cluster-usage": cluster_usage}

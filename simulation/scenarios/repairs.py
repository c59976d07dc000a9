"""Scenarios of replicas whose state differs from the log: they are found, taken out of service and repaired.

failing-reads    a node is restarted, and its disk fails some of the reads that applying entries needs
divergence       the state of one node after another is altered without an entry: the digests find it
"""

from __future__ import annotations

import asyncio
from typing import Final

from simulation.checkers.violation import demand
from simulation.replicas.state_alteration import StateAlteration
from simulation.scenarios.cluster_run import FAULTS_S, ClusterRun
from simulation.scenarios.machine import Starter
from simulation.scenarios.run_result import RunResult, Scenario
from simulation.world import Simulation

PARTITIONS: Final = 8


async def failing_reads(simulation: Simulation, starter: Starter) -> RunResult:
    reads = "restart_with_failing_reads"
    run = ClusterRun(simulation, (reads, reads, reads, "kill_the_leader", "reset"))
    places = await run.begin(PARTITIONS)
    run.write(places, plain=1, idempotent=2, transactional=1, pause_s=0.2)
    return await run.end(4.0, at_once=False)


async def divergence(simulation: Simulation, starter: Starter) -> RunResult:
    run = ClusterRun(simulation, ("reset", "slow_links"))
    places = await run.begin(2)
    run.write(places, plain=1, idempotent=1, transactional=1, pause_s=0.3)
    alteration = StateAlteration(run.cluster)
    run.cluster.tasks.append(asyncio.ensure_future(alteration.run(FAULTS_S * simulation.share)))
    played = await run.end(20.0)
    demand(alteration.count > 0, "no state was altered")
    return played


REPAIR_SCENARIOS: Final[dict[str, Scenario]] = {"failing-reads": failing_reads, "divergence": divergence}

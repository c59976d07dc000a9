"""Scenarios of machines that are lost, rolled back or copied, and of stopped clocks, with Kafka clients.

lost-hosts        hosts come back with an empty disk, and one of four never does
rolled-back       the disk of one host is as it was a while ago, also when it starts before all others
copied-disks      a copy of a directory is started on another machine, while the original runs
stalled-clocks    the monotonic clock of a host stops or jumps ahead
"""

from __future__ import annotations

from typing import Final

from simulation.replicas.fault_menus import COPIES, LOST_HOSTS, ROLLED_BACK, STALLED_CLOCKS
from simulation.scenarios.cluster_run import ClusterRun
from simulation.scenarios.machine import Starter
from simulation.scenarios.run_result import RunResult, Scenario
from simulation.world import Simulation

HOSTS: Final = 4  # Three of them have replicas.


async def lost_hosts(simulation: Simulation, starter: Starter) -> RunResult:
    return await _run(simulation, LOST_HOSTS, 5.0, size=HOSTS, at_once=False)


async def rolled_back(simulation: Simulation, starter: Starter) -> RunResult:
    return await _run(simulation, ROLLED_BACK, 3.0, at_once=False)


async def copied_disks(simulation: Simulation, starter: Starter) -> RunResult:
    return await _run(simulation, COPIES, 5.0, at_once=False)


async def stalled_clocks(simulation: Simulation, starter: Starter) -> RunResult:
    return await _run(simulation, STALLED_CLOCKS, 3.0)


async def _run(
    simulation: Simulation, menu: tuple[str, ...], calm_s: float, *, size: int = 3, at_once: bool = True
) -> RunResult:
    run = ClusterRun(simulation, menu, size)
    places = await run.begin(3)
    run.write(places, plain=1, idempotent=1, transactional=1, pause_s=0.3)
    run.commit(1, 0.5)
    return await run.end(calm_s, at_once=at_once)


MACHINE_SCENARIOS: Final[dict[str, Scenario]] = {
    "lost-hosts": lost_hosts,
    "rolled-back": rolled_back,
    "copied-disks": copied_disks,
    "stalled-clocks": stalled_clocks,
}

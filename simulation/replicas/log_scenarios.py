"""Scenarios of a replicated log, from empty disks to the final checks.

replicas    three to five nodes under all faults, several at a time
elections   leaders die, stop and are cut off in quick succession
survivors   the complete replicas die and stay away, and the one that lags most is left
parts       like elections, while many batches take several log entries and are torn between any of them
strangers   processes without the secret try to connect, while leaders change
quarantine  bits flip in the log or the snapshots of one node after another, between lesser faults
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import Final

from longhall.broker import send
from longhall.cluster.replication import leader
from longhall.log import wal
from longhall.shards import shard
from simulation.replicas.fault_injector import ClusterFaults
from simulation.replicas.fault_menus import DAMAGE, ELECTIONS, EVERYTHING, STRANGERS, SURVIVORS
from simulation.replicas.log_cluster import LARGE, Large, LogCluster, little_memory
from simulation.scenarios.machine import Starter
from simulation.scenarios.run_result import RunResult, Scenario
from simulation.world import Simulation

FAULTS_S: Final = 180.0
LOOK_S: Final = 0.25
SMALL_ENTRY_BYTES: Final = 400
SMALL: Final[list[tuple[ModuleType, str]]] = [
    (send, "ONE_ENTRY_BYTES_MAX"),
    (send, "DIRECT_BYTES_MIN"),
    (shard, "BATCH_PART_BYTES"),
    (leader, "PUSH_BATCH_BYTES"),
    (wal, "FRAME_BYTES_MAX"),
]
WHOLE_LARGE: Final = Large(chance=0.003, bytes_max=5 << 20)  # An entry has at most four MiB.
WRITERS: Final = 4
SIZES: Final = (3, 4, 5)


async def replicas(simulation: Simulation, starter: Starter) -> RunResult:
    return await run_log_scenario(simulation, EVERYTHING, 3.0, size=size_of(simulation))


async def elections(simulation: Simulation, starter: Starter) -> RunResult:
    return await run_log_scenario(simulation, ELECTIONS, 4.0)


async def survivors(simulation: Simulation, starter: Starter) -> RunResult:
    return await run_log_scenario(simulation, SURVIVORS, 4.0, at_once=False)


async def parts(simulation: Simulation, starter: Starter) -> RunResult:
    if is_compiled():
        return await run_log_scenario(simulation, ELECTIONS, 4.0, writers=1, large=WHOLE_LARGE)
    with _small_entries():
        return await run_log_scenario(simulation, ELECTIONS, 4.0, writers=WRITERS // 2)


def is_compiled() -> bool:
    """True if the bounds of an entry are compiled constants; some batches are then larger than these bounds."""
    return not str(wal.__file__).endswith(".py")


@contextmanager
def _small_entries() -> Iterator[None]:
    """Lower the bounds, so that batches of a few hundred bytes take several entries, push batches and frames."""
    kept = [(module, name, getattr(module, name)) for module, name in SMALL]
    try:
        for module, name, _ in kept:
            setattr(module, name, SMALL_ENTRY_BYTES)
        yield
    finally:
        for module, name, value in kept:
            setattr(module, name, value)


async def strangers(simulation: Simulation, starter: Starter) -> RunResult:
    return await run_log_scenario(simulation, STRANGERS, 3.0)


async def quarantine(simulation: Simulation, starter: Starter) -> RunResult:
    return await run_log_scenario(simulation, DAMAGE, 2.0, at_once=False)


def size_of(simulation: Simulation) -> int:
    """Three to five nodes, by seed."""
    return simulation.stream("size").choice(SIZES)


async def run_log_scenario(
    simulation: Simulation,
    menu: tuple[str, ...],
    calm_s: float,
    *,
    size: int = 3,
    at_once: bool = True,
    writers: int = WRITERS,
    large: Large = LARGE,
) -> RunResult:
    """Run a scenario from empty disks to the final checks."""
    with little_memory(simulation):
        cluster = LogCluster(simulation, size, large)
        return await _play(cluster, menu, calm_s, at_once, writers)


async def _play(cluster: LogCluster, menu: tuple[str, ...], calm_s: float, at_once: bool, writers: int) -> RunResult:
    simulation = cluster.simulation
    cluster.simulated_cluster.damage_allowed = "damage" in menu
    faults = ClusterFaults(cluster, menu)
    cluster.start()
    await cluster.make_topic()
    for number in range(writers):
        cluster.tasks.append(asyncio.ensure_future(cluster.write(number)))
    cluster.tasks.append(asyncio.ensure_future(cluster.declare()))
    injection = asyncio.ensure_future(faults.inject_faults(FAULTS_S * simulation.share, calm_s, at_once=at_once))
    while not injection.done():
        await cluster.pass_time(LOOK_S)
    await injection
    faults.heal()
    await cluster.settle()
    cluster.check_contents()
    boots = sum(cluster.host(node).boots for node in cluster.numbers)
    seconds = asyncio.get_running_loop().time()
    acknowledged = cluster.committed_log.acknowledgements
    return RunResult(seconds, cluster.sends, acknowledged, boots, faults.happened, simulation.trace.digest())


REPLICA_SCENARIOS: Final[dict[str, Scenario]] = {
    "replicas": replicas,
    "elections": elections,
    "survivors": survivors,
    "parts": parts,
    "strangers": strangers,
    "quarantine": quarantine,
}

"""Scenarios of disk failures other than failed syncs: reads, new files, lost and misdirected writes.

failed-reads            EIO on reads, of a running node and of one that recovers; writes and syncs succeed
nothing-new             no file or directory can be created (no inodes, EIO, too many open files); existing ones
                        accept writes
cluster-failed-reads    failing reads on the hosts of a cluster, while leaders change
cluster-nothing-new     failing creations on the hosts of a cluster, while leaders change
lying-disks             one host of a cluster loses and misdirects synced writes: it finds out and repairs itself, the
                        other replicas are complete, and no client is served false data
"""

from __future__ import annotations

from typing import Final

from simulation.replicas.fault_menus import CREATES, LIES, READS
from simulation.scenarios.cluster_run import ClusterRun
from simulation.scenarios.machine import Starter
from simulation.scenarios.run_result import RunResult, Scenario
from simulation.scenarios.single_node_run import SingleNodeRun, places_of
from simulation.world import Simulation

FAULTS_S: Final = 180.0
CHECKPOINT_BYTES: Final = 64 * 1024  # Small, so that segments are written while the disk loses writes.
PARTITIONS: Final = 12  # A replica that restarts reads each of them.


async def failed_reads(simulation: Simulation, starter: Starter) -> RunResult:
    return await _run(simulation, starter, ["failed_reads", "failed_reads", "power_cut", "stop_cleanly"])


async def nothing_new(simulation: Simulation, starter: Starter) -> RunResult:
    return await _run(simulation, starter, ["nothing_new", "nothing_new", "power_cut", "kill"])


async def _run(simulation: Simulation, starter: Starter, menu: list[str]) -> RunResult:
    run = SingleNodeRun(simulation, starter, menu)
    await run.begin({"events": (3, run.small_segments())})
    run.write(places_of("events", 3), plain=1, idempotent=2, transactional=1, pause_s=0.3)
    run.read(places_of("events", 3))
    run.commit(1, 0.5)
    return await run.end(FAULTS_S, 5.0)


async def cluster_failed_reads(simulation: Simulation, starter: Starter) -> RunResult:
    return await _play_cluster(simulation, READS)


async def cluster_nothing_new(simulation: Simulation, starter: Starter) -> RunResult:
    return await _play_cluster(simulation, CREATES)


async def _play_cluster(simulation: Simulation, menu: tuple[str, ...]) -> RunResult:
    run = ClusterRun(simulation, menu)
    places = await run.begin(PARTITIONS)
    run.write(places, plain=1, idempotent=3, transactional=1, pause_s=0.2)
    run.commit(1, 0.5)
    return await run.end(4.0)


async def lying_disks(simulation: Simulation, starter: Starter) -> RunResult:
    run = ClusterRun(simulation, LIES)
    run.cluster.watch.damage_allowed = True
    run.cluster.checkpoint_bytes = CHECKPOINT_BYTES
    places = await run.begin(3, {"segment.bytes": "4096"})
    run.write(places, plain=1, idempotent=1, transactional=1, pause_s=0.3)
    return await run.end(3.0, at_once=False)


BAD_DISKS: Final[dict[str, Scenario]] = {"failed-reads": failed_reads, "nothing-new": nothing_new}
BAD_CLUSTER_DISKS: Final[dict[str, Scenario]] = {
    "cluster-failed-reads": cluster_failed_reads,
    "cluster-nothing-new": cluster_nothing_new,
    "lying-disks": lying_disks,
}

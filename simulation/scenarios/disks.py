"""Disks that fail otherwise than in a sync: reads, new files, and writes that were acknowledged and are not there.

failed-reads            EIO on reads, of a node that runs and of one that recovers; writes and syncs succeed
nothing-new             no file and no directory can be made (no inodes, EIO, too many open files); those that exist
                        take writes
cluster-failed-reads    the same reads, on the hosts of a cluster, while leaders change
cluster-nothing-new     the same creates, likewise
lying-disks             one host of a cluster loses writes and misdirects them, all of them synced: it finds out and
                        repairs itself, the others have everything, and nobody is served what is false
"""

from __future__ import annotations

from typing import Final

from simulation.replicas.menus import CREATES, LIES, READS
from simulation.scenarios.cluster_play import ClusterPlay
from simulation.scenarios.machine import Starter
from simulation.scenarios.play import Play, places_of
from simulation.scenarios.played import Played, Scenario
from simulation.world import Simulation

RAGE_S: Final = 180.0
CHECKPOINT_BYTES: Final = 64 * 1024  # So that segments are written while their disk lies.
PARTITIONS: Final = 12  # A replica that comes back reads something of each.


async def failed_reads(simulation: Simulation, starter: Starter) -> Played:
    return await _play(simulation, starter, ["failed_reads", "failed_reads", "power_cut", "stop_cleanly"])


async def nothing_new(simulation: Simulation, starter: Starter) -> Played:
    return await _play(simulation, starter, ["nothing_new", "nothing_new", "power_cut", "kill"])


async def _play(simulation: Simulation, starter: Starter, menu: list[str]) -> Played:
    play = Play(simulation, starter, menu)
    await play.begin({"events": (3, play.small_segments())})
    play.write(places_of("events", 3), plain=1, idempotent=2, transactional=1, pause_s=0.3)
    play.read(places_of("events", 3))
    play.commit(1, 0.5)
    return await play.end(RAGE_S, 5.0)


async def cluster_failed_reads(simulation: Simulation, starter: Starter) -> Played:
    return await _play_cluster(simulation, READS)


async def cluster_nothing_new(simulation: Simulation, starter: Starter) -> Played:
    return await _play_cluster(simulation, CREATES)


async def _play_cluster(simulation: Simulation, menu: tuple[str, ...]) -> Played:
    play = ClusterPlay(simulation, menu)
    places = await play.begin(PARTITIONS)
    play.write(places, plain=1, idempotent=3, transactional=1, pause_s=0.2)
    play.commit(1, 0.5)
    return await play.end(4.0)


async def lying_disks(simulation: Simulation, starter: Starter) -> Played:
    play = ClusterPlay(simulation, LIES)
    play.fleet.watch.damage_allowed = True
    play.fleet.checkpoint_bytes = CHECKPOINT_BYTES
    places = await play.begin(3, {"segment.bytes": "4096"})
    play.write(places, plain=1, idempotent=1, transactional=1, pause_s=0.3)
    return await play.end(3.0, at_once=False)


BAD_DISKS: Final[dict[str, Scenario]] = {"failed-reads": failed_reads, "nothing-new": nothing_new}
BAD_CLUSTER_DISKS: Final[dict[str, Scenario]] = {
    "cluster-failed-reads": cluster_failed_reads,
    "cluster-nothing-new": cluster_nothing_new,
    "lying-disks": lying_disks,
}

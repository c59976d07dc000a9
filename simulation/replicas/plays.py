"""Scenarios of a replicated log, from empty disks to the verdict.

replicas    three to five members under every fault there is, several at a time
elections   leaders die, stop and are cut off in quick succession
survivors   those that have everything die and stay away, and whoever heard least is left
parts       like elections, while many batches take several entries of the log, and are cut anywhere between
strangers   processes that do not know the secret try to get in, while leaders change
quarantine  bits flip in the log or the snapshots of one member after another, between lesser faults
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
from simulation.replicas.cluster import LARGE, Cluster, Large, little_memory
from simulation.replicas.faults import Faults
from simulation.replicas.menus import DAMAGE, ELECTIONS, EVERYTHING, STRANGERS, SURVIVORS
from simulation.scenarios.machine import Starter
from simulation.scenarios.played import Played, Scenario
from simulation.world import Simulation

RAGE_S: Final = 180.0
LOOK_S: Final = 0.25
SMALL_ENTRY_BYTES: Final = 400
SMALL: Final[list[tuple[ModuleType, str]]] = [
    (send, "ONE_ENTRY_BYTES_MAX"),
    (send, "DIRECT_BYTES_MIN"),
    (shard, "BATCH_PART_BYTES"),
    (leader, "PUSH_BATCH_BYTES"),
    (wal, "FRAME_BYTES_MAX"),
]
WHOLE_LARGE: Final = Large(chance=0.003, bytes_max=5 << 20)  # An entry takes up to four MiB.
WRITERS: Final = 4
SIZES: Final = (3, 4, 5)


async def replicas(simulation: Simulation, starter: Starter) -> Played:
    return await play(simulation, EVERYTHING, 3.0, size=size_of(simulation))


async def elections(simulation: Simulation, starter: Starter) -> Played:
    return await play(simulation, ELECTIONS, 4.0)


async def survivors(simulation: Simulation, starter: Starter) -> Played:
    return await play(simulation, SURVIVORS, 4.0, at_once=False)


async def parts(simulation: Simulation, starter: Starter) -> Played:
    if is_compiled():
        return await play(simulation, ELECTIONS, 4.0, writers=1, large=WHOLE_LARGE)
    with _small_entries():
        return await play(simulation, ELECTIONS, 4.0, writers=WRITERS // 2)


def is_compiled() -> bool:
    """Whether the bounds of an entry are fixed. Then some batches are larger than those, instead."""
    return not str(wal.__file__).endswith(".py")


@contextmanager
def _small_entries() -> Iterator[None]:
    """So that batches of a few hundred bytes take several entries, bundles and frames."""
    kept = [(module, name, getattr(module, name)) for module, name in SMALL]
    try:
        for module, name, _ in kept:
            setattr(module, name, SMALL_ENTRY_BYTES)
        yield
    finally:
        for module, name, value in kept:
            setattr(module, name, value)


async def strangers(simulation: Simulation, starter: Starter) -> Played:
    return await play(simulation, STRANGERS, 3.0)


async def quarantine(simulation: Simulation, starter: Starter) -> Played:
    return await play(simulation, DAMAGE, 2.0, at_once=False)


def size_of(simulation: Simulation) -> int:
    """Three to five nodes, as the seed has it."""
    return simulation.stream("size").choice(SIZES)


async def play(
    simulation: Simulation,
    menu: tuple[str, ...],
    calm_s: float,
    *,
    size: int = 3,
    at_once: bool = True,
    writers: int = WRITERS,
    large: Large = LARGE,
) -> Played:
    """From empty disks to the verdict."""
    with little_memory(simulation):
        cluster = Cluster(simulation, size, large)
        return await _play(cluster, menu, calm_s, at_once, writers)


async def _play(cluster: Cluster, menu: tuple[str, ...], calm_s: float, at_once: bool, writers: int) -> Played:
    simulation = cluster.simulation
    cluster.fleet.damage_allowed = "damage" in menu
    faults = Faults(cluster, menu)
    cluster.start()
    await cluster.make_topic()
    for number in range(writers):
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
    "survivors": survivors,
    "parts": parts,
    "strangers": strangers,
    "quarantine": quarantine,
}

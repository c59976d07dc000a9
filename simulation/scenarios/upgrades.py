"""Whole nodes as one hall while their version changes, one after another, and leaders die.

upgrades    three nodes of the version before; each is restarted as the next one, some go back; then the feature level
            is raised, and whoever still is of the version before is refused. Writers and readers notice nothing
"""

from __future__ import annotations

import asyncio
import random
from typing import Any, Final

from longhall.broker.feature_gates import NEWEST, OLDEST
from longhall.coordination.ports import CoordinationError
from longhall.errors import LonghallError
from simulation.checkers.violation import demand
from simulation.loop import PowerCut
from simulation.scenarios.cluster_play import RAGE_S, ClusterPlay
from simulation.scenarios.machine import Starter
from simulation.scenarios.played import Played, Scenario
from simulation.scenarios.quorums import quorums
from simulation.scenarios.stalls import lone_leaders, stalls
from simulation.world import Simulation

NODES: Final = (1, 2, 3)
CALM_S: Final = 12.0
REFUSED_S: Final = 60.0
ASKED_S: Final = 5.0
MENU: Final = ("kill_the_leader", "kill_one", "pause_the_leader", "cut_from_the_coordinator", "reset", "slow_disk")


async def upgrades(simulation: Simulation, starter: Starter) -> Played:
    play = ClusterPlay(simulation, MENU)
    fleet = play.fleet
    fleet.level_max = dict.fromkeys(NODES, OLDEST)
    places = await play.begin(3)
    play.write(places, plain=1, idempotent=1, transactional=1, pause_s=0.4)
    play.commit(1, 1.0)
    fleet.tasks.append(asyncio.ensure_future(_watch(play)))
    rolling = asyncio.ensure_future(_roll(play, simulation.stream("upgrades")))
    raging = asyncio.ensure_future(play.faults.rage(RAGE_S * simulation.share, CALM_S))
    return await play.end_after(asyncio.gather(rolling, raging))


async def _roll(play: ClusterPlay, chance: random.Random) -> None:
    fleet = play.fleet
    order = [*NODES, chance.choice(NODES), *NODES]
    back = order[len(NODES)]
    for at, node in enumerate(order):
        fleet.level_max[node] = OLDEST if at == len(NODES) else NEWEST
        await asyncio.sleep(chance.uniform(1, 6))
        if at > len(NODES) and node != back:
            continue
        demand(_level(play) == OLDEST, "the level was raised, and nobody asked for it")
        await _restart(play, node, chance)
    while _level(play) == OLDEST:
        await asyncio.sleep(chance.uniform(0.2, 2))
        await _upgrade(play)
    await _refused(play, chance.choice(NODES), chance)


async def _restart(play: ClusterPlay, node: int, chance: random.Random) -> None:
    if chance.random() < 0.7:
        await play.fleet.stop(node)
    else:
        play.fleet.host(node).kill()


async def _upgrade(play: ClusterPlay) -> None:
    """As an operator would: ask a node, and again if that came to nothing."""
    for number, node in list(play.fleet.nodes.items()):
        process = play.fleet.host(number).process
        if process is None or not process.alive or node.cluster_node is None or not node.cluster_node.session.serving:
            continue
        asked = process.start(node.cluster_node.session.upgrade(NEWEST))
        waited: list[asyncio.Future[Any]] = [asked, process.ended]
        await asyncio.wait(waited, timeout=ASKED_S, return_when=asyncio.FIRST_COMPLETED)
        if asked.done() and not isinstance(asked.exception(), LonghallError | CoordinationError | PowerCut | None):
            asked.result()


async def _refused(play: ClusterPlay, node: int, chance: random.Random) -> None:
    """Started as the version before it is not let in, and as the next one it is."""
    fleet = play.fleet
    fleet.level_max[node] = OLDEST
    before = fleet.refusals
    ends_at = asyncio.get_running_loop().time() + REFUSED_S
    while fleet.refusals == before:
        demand(asyncio.get_running_loop().time() < ends_at, "a node of an older version was not refused")
        fleet.host(node).kill()
        await asyncio.sleep(chance.uniform(1, 5))
    fleet.level_max[node] = NEWEST


async def _watch(play: ClusterPlay) -> None:
    """The level never goes down, and nobody who cannot read it takes part."""
    highest = OLDEST
    while True:
        await asyncio.sleep(0.25)
        for number, node in list(play.fleet.nodes.items()):
            demand(
                node.hall.feature_level
                <= (node.cluster_node.place.level_max if node.cluster_node is not None else OLDEST),
                f"node {number} writes in feature level {node.hall.feature_level}",
            )
        level = _level(play)
        demand(level >= highest or not play.fleet.nodes, f"the feature level went from {highest} down to {level}")
        highest = max(highest, level)


def _level(play: ClusterPlay) -> int:
    """What is on record."""
    return play.fleet.recorded_level()


VERSION_SCENARIOS: Final[dict[str, Scenario]] = {
    "upgrades": upgrades,
    "quorums": quorums,
    "stalls": stalls,
    "lone-leaders": lone_leaders,
}

"""Scenarios of rolling upgrades, while leaders die.

upgrades    three nodes of the earlier version; each is restarted as the later one, some go back; then the feature level
            is raised, and nodes of the earlier version are refused. Writers and readers notice nothing
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
from simulation.scenarios.cluster_run import FAULTS_S, ClusterRun
from simulation.scenarios.machine import Starter
from simulation.scenarios.quorums import quorums
from simulation.scenarios.run_result import RunResult, Scenario
from simulation.scenarios.stalls import lone_leaders, stalls
from simulation.world import Simulation

NODES: Final = (1, 2, 3)
CALM_S: Final = 12.0
REFUSED_S: Final = 60.0
ASKED_S: Final = 5.0
MENU: Final = ("kill_the_leader", "kill_one", "pause_the_leader", "cut_from_the_coordinator", "reset", "slow_disk")


async def upgrades(simulation: Simulation, starter: Starter) -> RunResult:
    run = ClusterRun(simulation, MENU)
    cluster = run.cluster
    cluster.level_max = dict.fromkeys(NODES, OLDEST)
    places = await run.begin(3)
    run.write(places, plain=1, idempotent=1, transactional=1, pause_s=0.4)
    run.commit(1, 1.0)
    cluster.tasks.append(asyncio.ensure_future(_watch(run)))
    rolling = asyncio.ensure_future(_roll(run, simulation.stream("upgrades")))
    injection = asyncio.ensure_future(run.faults.inject_faults(FAULTS_S * simulation.share, CALM_S))
    return await run.end_after(asyncio.gather(rolling, injection))


async def _roll(run: ClusterRun, chance: random.Random) -> None:
    cluster = run.cluster
    order = [*NODES, chance.choice(NODES), *NODES]
    back = order[len(NODES)]
    for at, node in enumerate(order):
        cluster.level_max[node] = OLDEST if at == len(NODES) else NEWEST
        await asyncio.sleep(chance.uniform(1, 6))
        if at > len(NODES) and node != back:
            continue
        demand(_level(run) == OLDEST, "the feature level was raised without a request")
        await _restart(run, node, chance)
    while _level(run) == OLDEST:
        await asyncio.sleep(chance.uniform(0.2, 2))
        await _upgrade(run)
    await _refused(run, chance.choice(NODES), chance)


async def _restart(run: ClusterRun, node: int, chance: random.Random) -> None:
    if chance.random() < 0.7:
        await run.cluster.stop(node)
    else:
        run.cluster.host(node).kill()


async def _upgrade(run: ClusterRun) -> None:
    """Raise the level as an operator would: request it at a node, and again if the request failed."""
    for number, node in list(run.cluster.nodes.items()):
        process = run.cluster.host(number).process
        if process is None or not process.alive or node.cluster_node is None or not node.cluster_node.session.serving:
            continue
        asked = process.start(node.cluster_node.session.upgrade(NEWEST))
        waited: list[asyncio.Future[Any]] = [asked, process.ended]
        await asyncio.wait(waited, timeout=ASKED_S, return_when=asyncio.FIRST_COMPLETED)
        if asked.done() and not isinstance(asked.exception(), LonghallError | CoordinationError | PowerCut | None):
            asked.result()


async def _refused(run: ClusterRun, node: int, chance: random.Random) -> None:
    """Start a node as the earlier version, which is refused, and then as the later one, which is not."""
    cluster = run.cluster
    cluster.level_max[node] = OLDEST
    before = cluster.refusals
    ends_at = asyncio.get_running_loop().time() + REFUSED_S
    while cluster.refusals == before:
        demand(asyncio.get_running_loop().time() < ends_at, "a node of an older version was not refused")
        cluster.host(node).kill()
        await asyncio.sleep(chance.uniform(1, 5))
    cluster.level_max[node] = NEWEST


async def _watch(run: ClusterRun) -> None:
    """Check that the level never falls, and that no node takes part that does not know it."""
    highest = OLDEST
    while True:
        await asyncio.sleep(0.25)
        for number, node in list(run.cluster.nodes.items()):
            demand(
                node.hall.feature_level
                <= (node.cluster_node.place.level_max if node.cluster_node is not None else OLDEST),
                f"node {number} writes at feature level {node.hall.feature_level}",
            )
        level = _level(run)
        demand(level >= highest or not run.cluster.nodes, f"the feature level went from {highest} down to {level}")
        highest = max(highest, level)


def _level(run: ClusterRun) -> int:
    """The feature level on record."""
    return run.cluster.recorded_level()


VERSION_SCENARIOS: Final[dict[str, Scenario]] = {
    "upgrades": upgrades,
    "quorums": quorums,
    "stalls": stalls,
    "lone-leaders": lone_leaders,
}

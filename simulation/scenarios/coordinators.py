"""Scenarios whose ZooKeeper loses its data or is restored from an old backup, repeatedly and under load.

lost-coordinator        ZooKeeper loses everything, while all nodes run or while none does; then the nodes start in
                        any order, one without a replica or one that lags first, or all at once
restored-coordinator    ZooKeeper is as it was some time ago: an old in-sync set, epochs and numbers assigned again

The replicas' logs decide. Whatever ZooKeeper says, nothing acknowledged leaves the disks of the cluster, and when every
node runs again, the cluster serves within a minute, without an operator.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from typing import Final, final

from longhall.coordination.nodes import Nodes
from longhall.names import CATALOGUE_SHARD
from simulation.checkers.surviving_messages import SurvivingMessages
from simulation.checkers.violation import Violation
from simulation.replicas.simulated_cluster import SimulatedCluster
from simulation.scenarios.cluster_run import FAULTS_S, ClusterRun
from simulation.scenarios.machine import Starter
from simulation.scenarios.run_result import RunResult, Scenario
from simulation.world import Simulation

HOSTS: Final = 4  # Three of them have replicas.
SERVES_S: Final = 60.0
CALM_S: Final = 5.0
GAPS_S: Final = (0.0, 0.0, 0.5, 3.0, 20.0)  # Between the starts of two nodes.
AWAY_S: Final = (0.5, 8.0)  # Without ZooKeeper: shorter and longer than a session.


@final
class Losses:
    """Data losses of ZooKeeper, while the nodes with replicas run or not."""

    def __init__(self, run: ClusterRun, harm: Callable[[], None]) -> None:
        self._run = run
        self._cluster: SimulatedCluster = run.cluster
        self._harm = harm
        self._chance: random.Random = run.simulation.stream("losses")
        self.surviving = SurvivingMessages(run.context.log, [run.cluster.host(node) for node in run.cluster.numbers])

    async def strike(self) -> None:
        """Inject one loss after another; after each one the cluster must serve again."""
        loop = asyncio.get_running_loop()
        ends_at = loop.time() + FAULTS_S * self._run.simulation.share
        ways: list[Callable[[], Awaitable[None]]] = [self._while_all_run, self._while_nobody_runs, self._while_one_lags]
        while loop.time() < ends_at:
            await self._cluster.up(SERVES_S)
            self.surviving.check()
            await asyncio.sleep(self._chance.expovariate(1 / CALM_S))
            self._run.faults.happened += 1
            await self._chance.choice(ways)()
        await self._cluster.up(SERVES_S)
        self.surviving.check()

    async def _while_all_run(self) -> None:
        self._note("loss while all run")
        await self._lose()

    async def _while_nobody_runs(self) -> None:
        self._note("loss while nobody runs")
        self._stop_all(self._cluster.numbers)
        await self._lose()
        await self._start(self._order())

    async def _while_one_lags(self) -> None:
        """Keep one node away before the others stop; then start it first."""
        self._note("loss while one lags")
        keeping = [node for node in self._cluster.numbers if node in self._cluster.in_sync()]
        late = self._chance.choice(keeping or self._cluster.numbers)
        self._stop_all([late])
        await asyncio.sleep(self._chance.uniform(6, 10))
        self._stop_all(self._cluster.numbers)
        await self._lose()
        await self._start([late, *(node for node in self._order() if node != late)])

    def _stop_all(self, nodes: list[int]) -> None:
        power = self._chance.random() < 0.3
        for node in nodes:
            self._cluster.down.add(node)
            host = self._cluster.host(node)
            if power:
                host.cut_power()
            else:
                host.kill()

    async def _lose(self) -> None:
        zookeeper = self._cluster.zookeeper
        zookeeper.stop()
        await asyncio.sleep(self._chance.choice(AWAY_S))
        self._harm()
        zookeeper.start()

    def _order(self) -> list[int]:
        """Any order; rather often a node without a replica is first."""
        order = self._chance.sample(self._cluster.numbers, len(self._cluster.numbers))
        if self._chance.random() < 0.4:
            order.sort(key=lambda node: self._cluster.host(node).platter.used())
        return order

    async def _start(self, order: list[int]) -> None:
        at_once = self._chance.random() < 0.3
        for node in order:
            self._note(f"start {node}")
            self._cluster.down.discard(node)
            if not at_once:
                await asyncio.sleep(self._chance.choice(GAPS_S))

    def _note(self, what: str) -> None:
        self._cluster.simulation.trace.note(what)


async def lost_coordinator(simulation: Simulation, starter: Starter) -> RunResult:
    run = _run(simulation)
    return await _lose_and_judge(run, Losses(run, run.cluster.zookeeper.forget))


async def restored_coordinator(simulation: Simulation, starter: Starter) -> RunResult:
    run = _run(simulation)
    chance = simulation.stream("backups")
    backups: list[Nodes] = []

    def restore() -> None:
        run.cluster.zookeeper.restore(chance.choice(backups[-4:]))

    async def back_up() -> None:
        while True:
            backups.append(run.cluster.zookeeper.backup())
            await asyncio.sleep(chance.expovariate(1 / 10.0))

    run.cluster.tasks.append(asyncio.ensure_future(back_up()))
    return await _lose_and_judge(run, Losses(run, restore))


def _run(simulation: Simulation) -> ClusterRun:
    run = ClusterRun(simulation, ("kill_one", "kill_the_leader"), HOSTS)
    run.context.compressions = 1  # No compression: see `SurvivingMessages`.
    return run


async def _lose_and_judge(run: ClusterRun, losses: Losses) -> RunResult:
    try:
        places = await run.begin(3)
        run.write(places, plain=1, idempotent=1, transactional=1, pause_s=0.3)
        run.commit(1, 0.5)
        played = await run.end_after(asyncio.ensure_future(losses.strike()))
        losses.surviving.check()
        return played
    except Exception as error:
        state = run.cluster.zookeeper.peek(f"/shards/{CATALOGUE_SHARD}")
        record = state.data.decode() if state is not None else "there is no record"
        raise Violation(f"{error}\non disk: {losses.surviving.story()}\nZooKeeper: {record}") from error


LOST_COORDINATORS: Final[dict[str, Scenario]] = {
    "lost-coordinator": lost_coordinator,
    "restored-coordinator": restored_coordinator,
}

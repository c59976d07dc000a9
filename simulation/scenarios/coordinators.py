"""Whole nodes whose ZooKeeper loses its data or is restored from an old backup, under load, again and again.

lost-coordinator        everything in ZooKeeper is gone: while all nodes run, or while none does; then they start in
                        every order, one that keeps nothing or lags first, or all at once
restored-coordinator    ZooKeeper is as it was some time ago: other replicas in sync, epochs and numbers given again

The logs of the members are the truth. Whatever ZooKeeper says, nothing acknowledged leaves the disks of the cluster;
and when every member runs again, the cluster serves within a minute, without an operator.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from typing import Final, final

from longhall.coordination.nodes import Nodes
from longhall.names import CATALOGUE_SHARD
from simulation.checkers.remains import Remains
from simulation.checkers.violation import Violation
from simulation.replicas.fleet import Fleet
from simulation.scenarios.cluster_play import RAGE_S, ClusterPlay
from simulation.scenarios.machine import Starter
from simulation.scenarios.played import Played, Scenario
from simulation.world import Simulation

HOSTS: Final = 4  # Of which three keep the hall.
SERVES_S: Final = 60.0
CALM_S: Final = 5.0
GAPS_S: Final = (0.0, 0.0, 0.5, 3.0, 20.0)  # Between the starts of two nodes.
AWAY_S: Final = (0.5, 8.0)  # Without ZooKeeper: less and more than a session.


@final
class Losses:
    """What is done to ZooKeeper while whoever keeps the hall runs, or not."""

    def __init__(self, play: ClusterPlay, harm: Callable[[], None]) -> None:
        self._play = play
        self._fleet: Fleet = play.fleet
        self._harm = harm
        self._chance: random.Random = play.simulation.stream("losses")
        self.remains = Remains(play.stage.log, [play.fleet.host(node) for node in play.fleet.numbers])

    async def strike(self) -> None:
        """One loss after another; each time the cluster serves again."""
        loop = asyncio.get_running_loop()
        ends_at = loop.time() + RAGE_S * self._play.simulation.share
        ways: list[Callable[[], Awaitable[None]]] = [self._while_all_run, self._while_nobody_runs, self._while_one_lags]
        while loop.time() < ends_at:
            await self._fleet.up(SERVES_S)
            self.remains.check()
            await asyncio.sleep(self._chance.expovariate(1 / CALM_S))
            self._play.faults.happened += 1
            await self._chance.choice(ways)()
        await self._fleet.up(SERVES_S)
        self.remains.check()

    async def _while_all_run(self) -> None:
        self._note("loss while all run")
        await self._lose()

    async def _while_nobody_runs(self) -> None:
        self._note("loss while nobody runs")
        self._stop_all(self._fleet.numbers)
        await self._lose()
        await self._start(self._order())

    async def _while_one_lags(self) -> None:
        """One has been away for a while when the others go; it starts first."""
        self._note("loss while one lags")
        keeping = [node for node in self._fleet.numbers if node in self._fleet.in_sync()]
        late = self._chance.choice(keeping or self._fleet.numbers)
        self._stop_all([late])
        await asyncio.sleep(self._chance.uniform(6, 10))
        self._stop_all(self._fleet.numbers)
        await self._lose()
        await self._start([late, *(node for node in self._order() if node != late)])

    def _stop_all(self, nodes: list[int]) -> None:
        power = self._chance.random() < 0.3
        for node in nodes:
            self._fleet.down.add(node)
            host = self._fleet.host(node)
            if power:
                host.cut_power()
            else:
                host.kill()

    async def _lose(self) -> None:
        zookeeper = self._fleet.zookeeper
        zookeeper.stop()
        await asyncio.sleep(self._chance.choice(AWAY_S))
        self._harm()
        zookeeper.start()

    def _order(self) -> list[int]:
        """Any; rather often one that keeps nothing comes first."""
        order = self._chance.sample(self._fleet.numbers, len(self._fleet.numbers))
        if self._chance.random() < 0.4:
            order.sort(key=lambda node: self._fleet.host(node).platter.used())
        return order

    async def _start(self, order: list[int]) -> None:
        at_once = self._chance.random() < 0.3
        for node in order:
            self._note(f"start {node}")
            self._fleet.down.discard(node)
            if not at_once:
                await asyncio.sleep(self._chance.choice(GAPS_S))

    def _note(self, what: str) -> None:
        self._fleet.simulation.trace.note(what)


async def lost_coordinator(simulation: Simulation, starter: Starter) -> Played:
    play = _play(simulation)
    return await _lose_and_judge(play, Losses(play, play.fleet.zookeeper.forget))


async def restored_coordinator(simulation: Simulation, starter: Starter) -> Played:
    play = _play(simulation)
    chance = simulation.stream("backups")
    backups: list[Nodes] = []

    def restore() -> None:
        play.fleet.zookeeper.restore(chance.choice(backups[-4:]))

    async def back_up() -> None:
        while True:
            backups.append(play.fleet.zookeeper.backup())
            await asyncio.sleep(chance.expovariate(1 / 10.0))

    play.fleet.tasks.append(asyncio.ensure_future(back_up()))
    return await _lose_and_judge(play, Losses(play, restore))


def _play(simulation: Simulation) -> ClusterPlay:
    play = ClusterPlay(simulation, ("kill_one", "kill_the_leader"), HOSTS)
    play.stage.compressions = 1  # None: see `Remains`.
    return play


async def _lose_and_judge(play: ClusterPlay, losses: Losses) -> Played:
    try:
        places = await play.begin(3)
        play.write(places, plain=1, idempotent=1, transactional=1, pause_s=0.3)
        play.commit(1, 0.5)
        played = await play.end_after(asyncio.ensure_future(losses.strike()))
        losses.remains.check()
        return played
    except Exception as error:
        state = play.fleet.zookeeper.peek(f"/shards/{CATALOGUE_SHARD}")
        record = state.data.decode() if state is not None else "there is no record"
        raise Violation(f"{error}\non disk: {losses.remains.story()}\nZooKeeper: {record}") from error


LOST_COORDINATORS: Final[dict[str, Scenario]] = {
    "lost-coordinator": lost_coordinator,
    "restored-coordinator": restored_coordinator,
}

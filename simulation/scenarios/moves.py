"""Scenarios with moves: partitions of a topic go from one replication group to another while clients go on.

partition-moves  Kafka writers (plain, idempotent, transactional) and readers of a topic whose partitions move between
                 the hall and the wings of all hosts, again and again, under the faults of wings; some are cancelled
"""

from __future__ import annotations

import asyncio
import random
from typing import Any, Final, final

from longhall.cluster.placement.partition_mover import PartitionMover
from longhall.errors import LonghallError
from longhall.topics.partition_moves import owners_of
from simulation.checkers.violation import demand
from simulation.loop import PowerCut
from simulation.replicas.fault_menus import TRANSACTIONS
from simulation.replicas.group_processes import GroupProcesses
from simulation.scenarios.cluster_run import ClusterRun
from simulation.scenarios.group_moves import moves
from simulation.scenarios.machine import Starter
from simulation.scenarios.queue_moves import queue_moves
from simulation.scenarios.run_result import RunResult, Scenario
from simulation.world import Simulation

TOPIC: Final = "events"
PARTITIONS: Final = 4
CALM_S: Final = 7.0
PAUSE_S: Final = 4.0  # Between two moves that begin, on average.
ENDED_S: Final = 120.0  # Without faults, all moves have ended after this time.
LOOK_S: Final = 0.2
CANCELLED: Final = 0.15


@final
class MoveOperator:
    """An operator who moves partitions, and the check that each of them has one owner in the end."""

    def __init__(self, run: ClusterRun, group_processes: GroupProcesses) -> None:
        self.begun = 0
        self._run = run
        self._group_processes = group_processes
        self._chance: random.Random = run.context.stream("moves")

    async def move(self) -> None:
        """Begin and cancel moves until the run ends."""
        while not self._run.context.closing:
            await self._run.context.rest(self._chance.expovariate(1 / PAUSE_S))
            mover = self._mover()
            if mover is None:
                continue
            partition = self._chance.randrange(PARTITIONS)
            if self._chance.random() < CANCELLED:
                await self._ask(mover.cancel(TOPIC, [partition]))
            else:
                target = self._chance.choice([0, *sorted(self._numbers())])
                self.begun += await self._ask(mover.begin(TOPIC, {partition: target})) or 0

    async def check_owners(self) -> None:
        """Without faults every move ends, and then one group serves each partition and no other has its messages."""
        loop = asyncio.get_running_loop()
        ends_s = loop.time() + ENDED_S
        while (problem := self._unfinished()) is not None:
            demand(loop.time() < ends_s, f"after {ENDED_S} s without faults {problem}")
            await asyncio.sleep(LOOK_S)

    def _unfinished(self) -> str | None:
        main = self._run.cluster.leader()
        topic = main.hall.topic(TOPIC) if main is not None else None
        if main is None or topic is None:
            return "no node leads the hall"
        if topic.options.moves.moves:
            mover = self._mover()
            return f"partitions still move: {mover.progress() if mover is not None else topic.options.moves.moves}"
        owners = owners_of(topic.options.wings, PARTITIONS)
        halls = {0: main.hall}
        for cluster in self._group_processes.wings.values():
            assert cluster.wing is not None
            leader = cluster.leader()
            if leader is None:
                return f"the wing {cluster.wing.name} has no leader"
            halls[cluster.wing.number] = leader.hall
        for number, hall in halls.items():
            for partition in hall.routes.get(TOPIC, ()):
                owned = owners[partition.number] == number
                if owned == partition.elsewhere:
                    return f"the owners are {owners}, and group {number} differs for partition {partition.number}"
                if not owned and partition.log.segments:
                    return f"the owners are {owners}, and group {number} has messages of {partition.number}"
        return None

    def _numbers(self) -> list[int]:
        wings = (cluster.wing for cluster in self._group_processes.wings.values())
        return [wing.number for wing in wings if wing is not None]

    def _mover(self) -> PartitionMover | None:
        leader = self._run.cluster.leader()
        cluster_node = leader.cluster_node if leader is not None else None
        return cluster_node.mover if cluster_node is not None else None

    async def _ask(self, errand: Any) -> Any:
        """Have the leader do it; None if it refuses, or dies meanwhile."""
        leader = self._run.cluster.leader()
        assert leader is not None
        assert leader.cluster_node is not None
        process = self._run.cluster.host(leader.cluster_node.place.node).process
        assert process is not None
        asked = process.start(errand)
        waited: list[asyncio.Future[Any]] = [asked, process.ended]
        await asyncio.wait(waited, timeout=20.0, return_when=asyncio.FIRST_COMPLETED)
        if not asked.done() or asked.cancelled():
            return None
        error = asked.exception()
        if error is None:
            return asked.result()
        if not isinstance(error, LonghallError | PowerCut | OSError):
            raise error
        return None


async def partition_moves(simulation: Simulation, starter: Starter) -> RunResult:
    run = ClusterRun(simulation, TRANSACTIONS)
    group_processes = GroupProcesses(run.cluster)
    placement = simulation.stream("placement").choice(("hall", "parts", "share"))
    places = await run.begin(PARTITIONS, {"longhall.placement": placement})
    operator = MoveOperator(run, group_processes)
    run.write(places, plain=2, idempotent=2, transactional=2, pause_s=0.3)
    run.context.act(operator.move())
    run.verdict.healed = operator.check_owners
    played = await run.end(CALM_S)
    await group_processes.check_copies()
    demand(operator.begun > 0 or simulation.share < 1, "no partition has moved")
    return played


MOVE_SCENARIOS: Final[dict[str, Scenario]] = {
    "partition-moves": partition_moves,
    "moves": moves,
    "queue-moves": queue_moves,
}

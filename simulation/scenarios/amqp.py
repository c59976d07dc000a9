"""Scenarios of AMQP: exchanges, confirms, push consumers, dead letters and transactions, by the bytes of the door.

amqp            one node, whose power fails and whose process is killed
cluster-amqp    clients at every node of a cluster, while leaders die, stop and are cut off
"""

from __future__ import annotations

from typing import Final

from simulation.checkers.sends import Place
from simulation.replicas.fault_menus import LEADERS
from simulation.scenarios import queue_laws as laws
from simulation.scenarios.amqp_workers import DEAD, DONE, LEFT, RIGHT, WORK, AmqpWorkers
from simulation.scenarios.cluster_run import ClusterQueueRun
from simulation.scenarios.final_check import HEALED_S
from simulation.scenarios.machine import Starter
from simulation.scenarios.queue_run import QueueRun, alone
from simulation.scenarios.readers import read_all
from simulation.scenarios.run_result import RunResult, Scenario
from simulation.world import Simulation

FAULTS_S: Final = 180.0
CRASHES: Final = [
    *("power_cut_on_a_slow_disk",) * 3,
    "power_cut",
    "power_cut_in_the_middle",
    "kill",
    "stop_cleanly",
    "resets",
]


async def amqp(simulation: Simulation, starter: Starter) -> RunResult:
    run = alone(simulation, starter, CRASHES, [laws.PLAIN])
    await run.begin()
    workers = await _begin(run, alone=True)
    return await _end(run, workers, await run.end(FAULTS_S, 6.0))


async def cluster_amqp(simulation: Simulation, starter: Starter) -> RunResult:
    cluster = ClusterQueueRun(simulation, LEADERS, [laws.PLAIN])
    await cluster.clients.begin()
    workers = await _begin(cluster.clients, alone=False)
    return await _end(cluster.clients, workers, await cluster.end(7.0))


async def _begin(run: QueueRun, alone: bool) -> AmqpWorkers:
    workers = AmqpWorkers(run.context, alone)
    await run.context.on_clients(workers.declare())
    run.send(laws.PLAIN, 2.0)
    run.consume(laws.PLAIN, 1, 1.0)
    for number in range(2):
        run.context.act(workers.publish(f"publisher-{number}", 0.6))
        run.context.act(workers.move(f"mover-{number}"))
        for queue in (LEFT, RIGHT):
            run.context.act(workers.consume(f"consumer-{queue}-{number}", queue))
    run.context.act(workers.consume("undertaker", DEAD))
    return workers


async def _end(run: QueueRun, workers: AmqpWorkers, played: RunResult) -> RunResult:
    async def account() -> None:
        hall = await run.context.connect("accountant", patience_ms=30_000)
        _, records, _ = await read_all(hall, Place(DONE, 0), stable=True, seconds=HEALED_S)
        workers.oracle.account(WORK, [(record.value or b"").decode() for record in records])
        hall.close()

    await run.context.on_clients(account())
    sends, confirmed = workers.oracle.sends, workers.oracle.confirmed
    return played._replace(sends=played.sends + sends, acknowledged=played.acknowledged + confirmed)


AMQP_SCENARIOS: Final[dict[str, Scenario]] = {"amqp": amqp, "cluster-amqp": cluster_amqp}

"""The scenario `wing-amqp`: AMQP queues without a placement, in wings, with clients at every host."""

from __future__ import annotations

from typing import Final

from simulation.checkers.violation import demand
from simulation.scenarios import queue_laws as laws
from simulation.scenarios.amqp_workers import DEAD, LEFT, RIGHT, WORK, AmqpWorkers
from simulation.scenarios.machine import Starter
from simulation.scenarios.run_result import RunResult, Scenario
from simulation.scenarios.wings import WingQueueRun
from simulation.world import Simulation


async def wing_amqp(simulation: Simulation, starter: Starter) -> RunResult:
    run = WingQueueRun(simulation, [laws.NEAR, laws.URGENT])
    await run.begin()
    workers = AmqpWorkers(run.context, alone=False)
    await run.context.on_clients(workers.declare())
    leader = run.cluster.leader()
    assert leader is not None, "the first fault comes later"
    for name in (RIGHT, WORK):
        wings = leader.hall.catalogue.topics[name].options.wings
        demand(len(wings) == 1, f"{name}, which has no placement, is in the wings {wings}")
    run.clients.send(laws.NEAR, 2.0)
    run.clients.consume(laws.NEAR, 1, 1.0)
    for number in range(2):
        run.context.act(workers.publish(f"publisher-{number}", 0.6))
        for queue in (LEFT, RIGHT, WORK):
            run.context.act(workers.consume(f"consumer-{queue}-{number}", queue))
    run.context.act(workers.consume("undertaker", DEAD))
    played = await run.end()
    workers.oracle.account("", [])
    sends, confirmed = workers.oracle.sends, workers.oracle.confirmed
    return played._replace(sends=played.sends + sends, acknowledged=played.acknowledged + confirmed)


SPREAD_SCENARIOS: Final[dict[str, Scenario]] = {"wing-amqp": wing_amqp}

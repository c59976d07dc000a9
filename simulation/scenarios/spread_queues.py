"""Scenarios of queues that are spread over replication groups and change there, or push from there.

wing-growth    FIFO queues in several wings and in one that grow and shrink all the time, fed by SQS and by keys of
               Kafka producers, while hosts, links, disks and single wing processes fail
wing-amqp      AMQP queues without a placement, in wings: publishers with confirms and push consumers at every host
"""

from __future__ import annotations

import asyncio
from typing import Final, final

import msgspec

from longhall.broker.hall import Hall
from longhall.service.queue_operations import CreateQueue, SwitchQueue
from simulation.checkers.messages import Law
from simulation.checkers.violation import demand
from simulation.scenarios import queue_laws as laws
from simulation.scenarios.amqp_workers import DEAD, LEFT, RIGHT, WORK, AmqpWorkers
from simulation.scenarios.consumers import pause_now_and_then
from simulation.scenarios.in_process_client import answer_of
from simulation.scenarios.machine import Starter
from simulation.scenarios.queue_resizes import DILIGENT, Sizes, send_by_keys
from simulation.scenarios.run_result import RunResult, Scenario
from simulation.scenarios.sqs_client import Unanswered
from simulation.scenarios.wings import WingQueueRun
from simulation.world import Simulation

AGREED_S: Final = 60.0
HOSTS: Final = 3
APART: Final = laws.WIDE._replace(name="apart-wide.fifo", placement="parts", parts_max=12)
TOGETHER: Final = laws.WIDE._replace(name="together-wide.fifo", placement="share", parts_max=8)
KEYED: Final = laws.KEYED._replace(placement="share")
GROWING: Final = (APART, TOGETHER, KEYED)


@final
class GrowthRun:
    """A run with queues that grow in wings."""

    def __init__(self, simulation: Simulation) -> None:
        self.run = WingQueueRun(simulation, [*GROWING, laws.URGENT])

    async def begin(self) -> None:
        """Make the queues with all their settings, for some of which SQS has no attribute."""
        cluster = self.run.cluster
        await self.run.wait_ready()
        for law in GROWING:
            leader = cluster.leader()
            assert leader is not None, "no fault has begun"
            settings = msgspec.structs.replace(
                laws.settings_of(law),
                placement=law.placement,
                partitions=HOSTS if law.is_spread else 1,
                deduplication_scope="group",
            )
            await leader.service.dispatch(CreateQueue(law.name, settings))
        await self.run.begin()

    def pause(self, law: Law, pause_s: float) -> None:
        """Pause a queue in the hall and all its groups, and resume it, again and again."""
        context = self.run.context
        context.act(pause_now_and_then(context, self.run.oracle, "pauser", law.name, pause_s, self._switch))

    async def _switch(self, queue: str, paused: bool) -> None:
        found = self.run.cluster.serving()
        if found is None:
            raise Unanswered
        process, node = found

        async def request() -> None:
            await node.service.dispatch(SwitchQueue(queue, paused))

        await answer_of(process, request())

    async def check_agreement(self) -> None:
        """Wait until the hall and every group have the same parts of each queue."""
        loop = asyncio.get_running_loop()
        ends_s = loop.time() + AGREED_S
        while True:
            counts = {law.name: self._counts(law) for law in GROWING}
            if all(len(set(found)) == 1 for found in counts.values()):
                return
            demand(loop.time() < ends_s, f"the parts in the hall and in its groups differ: {counts}")
            await asyncio.sleep(0.5)

    def _counts(self, law: Law) -> list[tuple[int, int]]:
        """The open and shown parts of a queue in the hall and in its groups; none for one without a leader."""
        leader = self.run.cluster.leader()
        halls: list[Hall | None] = [leader.hall if leader is not None else None]
        wings = leader.hall.catalogue.topics[law.name].options.wings if leader is not None else []
        halls += [self.run.group_processes.leading_hall(number) for number in wings]
        found = [hall.topic(law.name) if hall is not None else None for hall in halls]
        return [(one.open_count, one.shown_count) if one is not None else (0, at) for at, one in enumerate(found)]


async def wing_growth(simulation: Simulation, starter: Starter) -> RunResult:
    growth = GrowthRun(simulation)
    run = growth.run
    await growth.begin()
    clients, context = run.clients, run.context
    sizes = Sizes(context, {APART.name: HOSTS, TOGETHER.name: 1, KEYED.name: 1})
    for law in (APART, TOGETHER):
        clients.send_in_lines(law, 3, 0.4)  # A pause is long enough for it to grow.
        clients.consume(law, 2, 0.5, DILIGENT)
        growth.pause(law, 12.0)
    context.act(send_by_keys(context, run.oracle, "keys", KEYED.name, 0.6))
    clients.consume(KEYED, 1, 1.5)
    played = await run.end()
    await growth.check_agreement()
    sizes.check(TOGETHER.name, shrinks=False)
    sizes.check(APART.name, shrinks=False)
    return played


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


SPREAD_SCENARIOS: Final[dict[str, Scenario]] = {"wing-growth": wing_growth, "wing-amqp": wing_amqp}

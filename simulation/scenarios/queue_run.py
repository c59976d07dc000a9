"""The start and the end of all scenarios with queues, on one node or several."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Final, final

from longhall.broker.queues.service import QueueService
from simulation.checkers.messages import Law
from simulation.checkers.queues import QueueOracle
from simulation.scenarios import consumers, producers
from simulation.scenarios.consumers import BAD, GOOD, Consumer, Habits
from simulation.scenarios.drain import Drain
from simulation.scenarios.fault_injector import FaultInjector
from simulation.scenarios.in_process_client import ask_inside
from simulation.scenarios.machine import Machine, Starter
from simulation.scenarios.nemesis import Nemesis
from simulation.scenarios.queue_laws import DEAD, POISON, REVIVED, settings_of
from simulation.scenarios.run_context import RunContext
from simulation.scenarios.run_result import RunResult
from simulation.world import Simulation

READY_S: Final = 20.0


@final
class QueueRun:
    """A run with SQS clients: makes the queues, starts clients and faults, drains, and checks."""

    def __init__(self, context: RunContext, faults: FaultInjector, oracle: QueueOracle) -> None:
        self.context = context
        self.oracle = oracle
        self.drain = Drain(context, faults, oracle)
        self._faults = faults

    async def begin(self) -> None:
        """Wait for the hall, and make the queues before the first fault."""
        await self.context.deployment.up(READY_S)
        for law in sorted(self.oracle.laws.values(), key=lambda law: bool(law.dead)):

            async def question(desk: QueueService, law: Law = law) -> None:
                await desk.create(law.name, settings_of(law))

            await ask_inside(self.context.deployment, question)

    async def end(self, rage_s: float, calm_s: float) -> RunResult:
        with self.drain.reports:
            rage_s *= self.context.simulation.share
            injection = asyncio.ensure_future(self._faults.inject_faults(rage_s, calm_s))
            await self.context.watch(rage_s)
            while not injection.done():  # The last fault may take long to heal.
                await self.context.watch(1.0)
            await injection
            await self.drain.speak()
        oracle = self.oracle
        seconds = asyncio.get_running_loop().time()
        return RunResult(
            seconds,
            oracle.sends,
            oracle.acknowledged,
            self.context.deployment.boots,
            self._faults.happened,
            self.context.simulation.trace.digest(),
            oracle.delivered,
            oracle.settled,
            oracle.dead,
        )

    def send(self, law: Law, pause_s: float, delayed: float = 0.0) -> None:
        name = f"sender-{law.name}"
        self.context.act(producers.send_freely(self.context, self.oracle, name, law.name, pause_s, delayed))

    def send_in_lines(self, law: Law, senders: int, pause_s: float, again_s: float = producers.AGAIN_S) -> None:
        for number in range(senders):
            name = f"{law.name[0]}{number}"
            self.context.act(producers.send_in_lines(self.context, self.oracle, name, law.name, 3, pause_s, again_s))

    def consume(
        self,
        law: Law,
        count: int,
        pause_s: float,
        habits: Habits = GOOD,
        *,
        receiver_filter: str = "",
        colour: str = "",
    ) -> None:
        """Start consumers; with a filter they accept messages of this colour only."""
        for number in range(count):
            name = f"consumer-{law.name}-{number}{colour}"
            consumer = Consumer(self.context, self.oracle, name, law.name, habits)
            consumer.receiver_filter, consumer.colour = receiver_filter, colour
            self.context.act(consumer.run(pause_s))

    def poison(self, pause_s: float) -> None:
        self.send(POISON, pause_s)
        self.consume(POISON, 3, pause_s, BAD)
        self.consume(DEAD, 1, pause_s * 8, Habits(settle=0.3))
        self.consume(REVIVED, 1, pause_s * 2)
        context = self.context
        targets = ["", REVIVED.name]
        context.act(consumers.redrive_now_and_then(context, self.oracle, "mover", DEAD.name, targets, 8.0))

    def purge(self, law: Law, pause_s: float) -> None:
        self.context.act(consumers.purge_now_and_then(self.context, self.oracle, "purger", law.name, pause_s))

    def pause(self, law: Law, pause_s: float) -> None:
        switch = partial(consumers.switch_inside, self.context)
        self.context.act(consumers.pause_now_and_then(self.context, self.oracle, "pauser", law.name, pause_s, switch))


def alone(simulation: Simulation, starter: Starter, menu: list[str], laws: list[Law]) -> QueueRun:
    """A run on a single node."""
    machine = Machine(simulation, starter)
    context = RunContext(simulation, machine)
    machine.start()
    return QueueRun(context, Nemesis(simulation, machine, menu), QueueOracle(laws))

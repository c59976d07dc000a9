"""What all scenarios of queues begin and end with, whether one node keeps the hall or several."""

from __future__ import annotations

import asyncio
from typing import Final, final

from longhall.broker.queues.service import QueueService
from simulation.checkers.messages import Law
from simulation.checkers.queues import QueueOracle
from simulation.scenarios import consumers, producers
from simulation.scenarios.consumers import BAD, GOOD, Consumer, Habits
from simulation.scenarios.drain import Drain
from simulation.scenarios.inside import ask_inside
from simulation.scenarios.laws import DEAD, POISON, REVIVED, settings_of
from simulation.scenarios.machine import Machine, Starter
from simulation.scenarios.nemesis import Nemesis
from simulation.scenarios.played import Played
from simulation.scenarios.raging import Raging
from simulation.scenarios.stage import Stage
from simulation.world import Simulation

READY_S: Final = 20.0


@final
class QueuePlay:
    """What all scenarios begin and end with."""

    def __init__(self, stage: Stage, faults: Raging, oracle: QueueOracle) -> None:
        self.stage = stage
        self.oracle = oracle
        self.drain = Drain(stage, faults, oracle)
        self._faults = faults

    async def begin(self) -> None:
        """Wait for the hall, and make the queues before anything breaks."""
        await self.stage.premises.up(READY_S)
        for law in sorted(self.oracle.laws.values(), key=lambda law: bool(law.dead)):

            async def question(desk: QueueService, law: Law = law) -> None:
                await desk.create(law.name, settings_of(law))

            await ask_inside(self.stage.premises, question)

    async def end(self, rage_s: float, calm_s: float) -> Played:
        with self.drain.reports:
            rage_s *= self.stage.simulation.share
            raging = asyncio.ensure_future(self._faults.rage(rage_s, calm_s))
            await self.stage.watch(rage_s)
            while not raging.done():  # Whatever went wrong last may take its time to heal.
                await self.stage.watch(1.0)
            await raging
            await self.drain.speak()
        oracle = self.oracle
        seconds = asyncio.get_running_loop().time()
        return Played(
            seconds,
            oracle.sends,
            oracle.acknowledged,
            self.stage.premises.boots,
            self._faults.happened,
            self.stage.simulation.trace.digest(),
            oracle.delivered,
            oracle.settled,
            oracle.dead,
        )

    def send(self, law: Law, pause_s: float, delayed: float = 0.0) -> None:
        name = f"sender-{law.name}"
        self.stage.act(producers.send_freely(self.stage, self.oracle, name, law.name, pause_s, delayed))

    def send_in_lines(self, law: Law, senders: int, pause_s: float, again_s: float = producers.AGAIN_S) -> None:
        for number in range(senders):
            name = f"{law.name[0]}{number}"
            self.stage.act(producers.send_in_lines(self.stage, self.oracle, name, law.name, 3, pause_s, again_s))

    def consume(
        self, law: Law, count: int, pause_s: float, habits: Habits = GOOD, *, wish: str = "", colour: str = ""
    ) -> None:
        """With a wish, a filter, they want messages of this colour alone."""
        for number in range(count):
            name = f"consumer-{law.name}-{number}{colour}"
            consumer = Consumer(self.stage, self.oracle, name, law.name, habits)
            consumer.wish, consumer.colour = wish, colour
            self.stage.act(consumer.run(pause_s))

    def poison(self, pause_s: float) -> None:
        self.send(POISON, pause_s)
        self.consume(POISON, 3, pause_s, BAD)
        self.consume(DEAD, 1, pause_s * 8, Habits(settle=0.3))
        self.consume(REVIVED, 1, pause_s * 2)
        stage = self.stage
        targets = ["", REVIVED.name]
        stage.act(consumers.redrive_now_and_then(stage, self.oracle, "mover", DEAD.name, targets, 8.0))

    def purge(self, law: Law, pause_s: float) -> None:
        self.stage.act(consumers.purge_now_and_then(self.stage, self.oracle, "purger", law.name, pause_s))

    def pause(self, law: Law, pause_s: float) -> None:
        self.stage.act(consumers.pause_now_and_then(self.stage, self.oracle, "pauser", law.name, pause_s))


def alone(simulation: Simulation, starter: Starter, menu: list[str], laws: list[Law]) -> QueuePlay:
    """One node keeps them."""
    machine = Machine(simulation, starter)
    stage = Stage(simulation, machine)
    machine.start()
    return QueuePlay(stage, Nemesis(simulation, machine, menu), QueueOracle(laws))

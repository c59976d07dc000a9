"""What the scenarios of a single node begin and end with."""

from __future__ import annotations

import asyncio
import random

from simulation.checkers.sends import Place
from simulation.checkers.tables import MembershipOracle, OffsetOracle
from simulation.scenarios.committers import commit_offsets
from simulation.scenarios.machine import Machine, Starter
from simulation.scenarios.members import come_and_go
from simulation.scenarios.nemesis import Nemesis
from simulation.scenarios.played import Played
from simulation.scenarios.readers import follow
from simulation.scenarios.stage import Stage
from simulation.scenarios.transactions import TransactionalWriter
from simulation.scenarios.verdict import Verdict
from simulation.scenarios.writers import write_idempotently, write_plainly
from simulation.world import Simulation


class Play:
    """What all scenarios begin and end with."""

    def __init__(self, simulation: Simulation, starter: Starter, menu: list[str]) -> None:
        self.simulation = simulation
        self.machine = Machine(simulation, starter)
        self.stage = Stage(simulation, self.machine)
        self.nemesis = Nemesis(simulation, self.machine, menu)
        self.verdict = Verdict(self.stage, self.nemesis)
        self.chance: random.Random = simulation.stream("play")

    async def begin(self, topics: dict[str, tuple[int, dict[str, str]]]) -> None:
        """Start the node and make the topics, before anything breaks."""
        self.machine.start()
        await self.machine.up(10.0)
        await self.stage.on_clients(self._make(topics))

    async def _make(self, topics: dict[str, tuple[int, dict[str, str]]]) -> None:
        hall = await self.stage.connect("maker")
        for name, (partitions, configs) in topics.items():
            await hall.topics.create(name, partitions=partitions, configs=configs)
            self.stage.topics.created(name)
        hall.close()

    async def end(self, rage_s: float, calm_s: float) -> Played:
        with self.verdict.reports:
            rage_s *= self.simulation.share
            raging = asyncio.ensure_future(self.nemesis.rage(rage_s, calm_s))
            await self.stage.watch(rage_s)
            await raging
            await self.verdict.speak()
        digest = self.simulation.trace.digest()
        log = self.stage.log
        seconds = asyncio.get_running_loop().time()
        return Played(seconds, log.sends, log.acknowledged, self.machine.boots, self.nemesis.happened, digest)

    def small_segments(self) -> dict[str, str]:
        """So that segments roll, close and are read cold within a run, or so that large batches go straight to them."""
        return {"segment.bytes": str(self.chance.choice((4_096, 20_000, 2_000_000, 10_000_000)))}

    def write(self, places: list[Place], *, plain: int, idempotent: int, transactional: int, pause_s: float) -> None:
        stage = self.stage
        self.verdict.logs += places
        for number in range(plain):
            stage.act(write_plainly(stage, f"plain-{number}", places, pause_s))
        for number in range(idempotent):
            stage.act(write_idempotently(stage, f"idempotent-{number}", places, pause_s))
        for number in range(transactional):
            writer = TransactionalWriter(stage, f"transactional-{number}", places, rising=number % 2 == 1)
            self.verdict.transactional.append(writer)
            stage.act(writer.run(pause_s * 2))

    def read(self, places: list[Place]) -> None:
        self.stage.act(follow(self.stage, "follower", places, stable=False))
        self.stage.act(follow(self.stage, "committed-follower", places, stable=True))

    def belong(self, members: int) -> None:
        oracle = MembershipOracle("members")
        for number in range(members):
            self.stage.act(come_and_go(self.stage, f"member-{number}", oracle, ["events"]))

    def commit(self, groups: int, pause_s: float) -> None:
        for number in range(groups):
            oracle = OffsetOracle(f"group-{number}", Place("events", 0))
            self.verdict.offsets.append(oracle)
            self.stage.act(commit_offsets(self.stage, f"committer-{number}", oracle, pause_s))


def places_of(topic: str, partitions: int) -> list[Place]:
    return [Place(topic, number) for number in range(partitions)]

"""The start and the end of scenarios with topics on a single node."""

from __future__ import annotations

import asyncio
import random

from simulation.checkers.sends import Place
from simulation.checkers.topic_state import MembershipOracle, OffsetOracle, OwnershipOracle
from simulation.scenarios.committers import commit_offsets
from simulation.scenarios.consumer_members import come_and_go_assigned
from simulation.scenarios.final_check import FinalCheck
from simulation.scenarios.group_members import come_and_go
from simulation.scenarios.machine import Machine, Starter
from simulation.scenarios.nemesis import Nemesis
from simulation.scenarios.readers import follow
from simulation.scenarios.run_context import RunContext
from simulation.scenarios.run_result import RunResult
from simulation.scenarios.transactions import TransactionalWriter
from simulation.scenarios.writers import write_idempotently, write_plainly
from simulation.world import Simulation


class SingleNodeRun:
    """A run with Kafka clients on one node: makes the topics, starts clients and faults, and checks."""

    def __init__(self, simulation: Simulation, starter: Starter, menu: list[str]) -> None:
        self.simulation = simulation
        self.machine = Machine(simulation, starter)
        self.context = RunContext(simulation, self.machine)
        self.nemesis = Nemesis(simulation, self.machine, menu)
        self.verdict = FinalCheck(self.context, self.nemesis)
        self.chance: random.Random = simulation.stream("play")

    async def begin(self, topics: dict[str, tuple[int, dict[str, str]]]) -> None:
        """Start the node and make the topics, before the first fault."""
        self.machine.start()
        await self.machine.up(10.0)
        await self.context.on_clients(self._make(topics))

    async def _make(self, topics: dict[str, tuple[int, dict[str, str]]]) -> None:
        hall = await self.context.connect("maker")
        for name, (partitions, configs) in topics.items():
            await hall.topics.create(name, partitions=partitions, configs=configs)
            self.context.topics.created(name)
        hall.close()

    async def end(self, rage_s: float, calm_s: float) -> RunResult:
        with self.verdict.reports:
            rage_s *= self.simulation.share
            injection = asyncio.ensure_future(self.nemesis.inject_faults(rage_s, calm_s))
            await self.context.watch(rage_s)
            await injection
            await self.verdict.speak()
        digest = self.simulation.trace.digest()
        log = self.context.log
        seconds = asyncio.get_running_loop().time()
        return RunResult(seconds, log.sends, log.acknowledged, self.machine.boots, self.nemesis.happened, digest)

    def small_segments(self) -> dict[str, str]:
        """Segment sizes with which segments roll, close and are read cold within a run, or with which large
        batches bypass the log.
        """
        return {"segment.bytes": str(self.chance.choice((4_096, 20_000, 2_000_000, 10_000_000)))}

    def write(self, places: list[Place], *, plain: int, idempotent: int, transactional: int, pause_s: float) -> None:
        context = self.context
        self.verdict.logs += places
        for number in range(plain):
            context.act(write_plainly(context, f"plain-{number}", places, pause_s))
        for number in range(idempotent):
            context.act(write_idempotently(context, f"idempotent-{number}", places, pause_s))
        for number in range(transactional):
            writer = TransactionalWriter(context, f"transactional-{number}", places, rising=number % 2 == 1)
            self.verdict.transactional.append(writer)
            context.act(writer.run(pause_s * 2))

    def read(self, places: list[Place]) -> None:
        self.context.act(follow(self.context, "follower", places, stable=False))
        self.context.act(follow(self.context, "committed-follower", places, stable=True))

    def belong(self, members: int) -> None:
        oracle = MembershipOracle("members")
        for number in range(members):
            self.context.act(come_and_go(self.context, f"member-{number}", oracle, ["events"]))

    def belong_assigned(self, members: int) -> None:
        """Members of a group with server-side assignment."""
        oracle = OwnershipOracle("assigned-members")
        for number in range(members):
            name = f"assigned-member-{number}"
            self.context.act(come_and_go_assigned(self.context, name, oracle, ["events"]))

    def commit(self, groups: int, pause_s: float) -> None:
        for number in range(groups):
            oracle = OffsetOracle(f"group-{number}", Place("events", 0))
            self.verdict.offsets.append(oracle)
            self.context.act(commit_offsets(self.context, f"committer-{number}", oracle, pause_s))


def places_of(topic: str, partitions: int) -> list[Place]:
    return [Place(topic, number) for number in range(partitions)]

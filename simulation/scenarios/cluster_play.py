"""What scenarios of whole nodes in a cluster begin and end with: Kafka clients and SQS clients, through any node.

The clients and the oracles are those of a single node. Beside them the log that the nodes keep together is watched, and
in the end all who keep the hall must have the same.
"""

from __future__ import annotations

import asyncio
from typing import Any, Final

from longhall.cluster.membership.election import REPLICAS_MAX
from simulation.checkers.messages import Law
from simulation.checkers.queues import QueueOracle
from simulation.checkers.sends import Place
from simulation.checkers.tables import MembershipOracle, OffsetOracle
from simulation.replicas.faults import Faults
from simulation.replicas.fleet import Fleet
from simulation.scenarios.committers import commit_offsets
from simulation.scenarios.members import come_and_go
from simulation.scenarios.played import Played
from simulation.scenarios.queue_play import QueuePlay
from simulation.scenarios.readers import follow
from simulation.scenarios.stage import Stage
from simulation.scenarios.transactions import TransactionalWriter
from simulation.scenarios.verdict import Verdict
from simulation.scenarios.writers import write_idempotently, write_plainly
from simulation.world import Simulation

RAGE_S: Final = 180.0
READY_S: Final = 20.0
LINGER_S: Final = 20.0  # A node may wait so long for a leader, or for a link, before it does what nobody waits for.
SLACK_S: Final = 0.05  # Leaders agree on the time but for the way between them.
SIZES: Final = (3, 4, 5)


class ClusterPlay:
    """Kafka clients of a cluster."""

    def __init__(self, simulation: Simulation, menu: tuple[str, ...], size: int = 3) -> None:
        self.simulation = simulation
        self.fleet = Fleet(simulation, size)
        self.stage = stage_of(self.fleet)
        self.faults = Faults(self.fleet, menu)
        self.verdict = Verdict(self.stage, self.faults)
        self.verdict.damage_allowed = True  # Damage is told of in another way: a directory is fetched anew.
        self.verdict.lost = lambda: self.faults.flips.lost(REPLICAS_MAX)

    async def begin(self, partitions: int, configs: dict[str, str] | None = None) -> list[Place]:
        """Start the nodes and make the topic, before anything breaks."""
        self.fleet.start()
        await self.fleet.up(READY_S)
        await self.stage.on_clients(self._make(partitions, configs or {}))
        self.verdict.logs = [Place("events", number) for number in range(partitions)]
        return self.verdict.logs

    async def _make(self, partitions: int, configs: dict[str, str]) -> None:
        hall = await self.stage.connect("maker")
        segments = {"segment.bytes": str(self.simulation.stream("play").choice((4_096, 20_000, 2_000_000)))}
        await hall.topics.create("events", partitions=partitions, configs={**segments, **configs})
        self.stage.topics.created("events")
        hall.close()

    def write(self, places: list[Place], *, plain: int, idempotent: int, transactional: int, pause_s: float) -> None:
        for number in range(plain):
            self.stage.act(write_plainly(self.stage, f"plain-{number}", places, pause_s))
        for number in range(idempotent):
            self.stage.act(write_idempotently(self.stage, f"idempotent-{number}", places, pause_s))
        for number in range(transactional):
            writer = TransactionalWriter(self.stage, f"transactional-{number}", places, rising=number % 2 == 1)
            self.verdict.transactional.append(writer)
            self.stage.act(writer.run(pause_s * 2))
        self.stage.act(follow(self.stage, "follower", places, stable=False))
        self.stage.act(follow(self.stage, "committed-follower", places, stable=True))

    def commit(self, groups: int, pause_s: float) -> None:
        for number in range(groups):
            oracle = OffsetOracle(f"group-{number}", Place("events", 0))
            self.verdict.offsets.append(oracle)
            self.stage.act(commit_offsets(self.stage, f"committer-{number}", oracle, pause_s))

    def belong(self, members: int) -> None:
        oracle = MembershipOracle("members")
        for number in range(members):
            self.stage.act(come_and_go(self.stage, f"member-{number}", oracle, ["events"]))

    async def end(self, calm_s: float, *, at_once: bool = True) -> Played:
        raging = self.faults.rage(RAGE_S * self.simulation.share, calm_s, at_once=at_once)
        return await self.end_after(asyncio.ensure_future(raging))

    async def end_after(self, raging: asyncio.Future[Any]) -> Played:
        """The verdict, when everything that breaks things is done."""
        with self.verdict.reports:
            while not raging.done():
                await self.stage.watch(1.0)
            await raging
            await self.verdict.speak()
            await self.fleet.watch.check_copies()
        log = self.stage.log
        seconds = asyncio.get_running_loop().time()
        digest = self.simulation.trace.digest()
        return Played(seconds, log.sends, log.acknowledged, self.fleet.boots, self.faults.happened, digest)


class ClusterQueuePlay:
    """SQS clients of a cluster."""

    def __init__(self, simulation: Simulation, menu: tuple[str, ...], laws: list[Law], size: int = 3) -> None:
        self.fleet = Fleet(simulation, size)
        self.stage = stage_of(self.fleet)
        oracle = QueueOracle(laws, linger_s=LINGER_S, slack_s=SLACK_S)
        self.clients = QueuePlay(self.stage, Faults(self.fleet, menu), oracle)
        self.clients.drain.damage_allowed = True
        self.fleet.start()

    async def end(self, calm_s: float) -> Played:
        played = await self.clients.end(RAGE_S, calm_s)
        await self.fleet.watch.check_copies()
        return played


def stage_of(fleet: Fleet) -> Stage:
    """Clients that know all nodes."""
    stage = Stage(fleet.simulation, fleet)
    stage.addresses = fleet.addresses
    stage.sqs_places = fleet.sqs_places
    return stage


def size_of(simulation: Simulation) -> int:
    """Three to five nodes, as the seed has it."""
    return simulation.stream("size").choice(SIZES)

"""The start and the end of scenarios with a cluster of whole nodes: Kafka clients and SQS clients, at any node.

The clients and the oracles are those of a single node. An observer also checks the nodes' replicated log, and at the
end all replicas must be equal.
"""

from __future__ import annotations

import asyncio
from typing import Any, Final

from longhall.cluster.membership.election import REPLICAS_MAX
from simulation.checkers.messages import Law
from simulation.checkers.queues import QueueOracle
from simulation.checkers.sends import Place
from simulation.checkers.topic_state import MembershipOracle, OffsetOracle, OwnershipOracle
from simulation.replicas.fault_injector import ClusterFaults
from simulation.replicas.simulated_cluster import SimulatedCluster
from simulation.scenarios.committers import commit_offsets
from simulation.scenarios.consumer_members import come_and_go_assigned
from simulation.scenarios.final_check import FinalCheck
from simulation.scenarios.group_members import come_and_go
from simulation.scenarios.queue_run import QueueRun
from simulation.scenarios.readers import follow
from simulation.scenarios.run_context import RunContext
from simulation.scenarios.run_result import RunResult
from simulation.scenarios.transactions import TransactionalWriter
from simulation.scenarios.writers import write_idempotently, write_plainly
from simulation.world import Simulation

FAULTS_S: Final = 180.0
READY_S: Final = 20.0
# A node may wait so long for a leader or a link before it carries out a request that its client has given up.
LINGER_S: Final = 20.0
# A leader is behind its predecessor by at most the latency of slow links, and its successor is by as much again; after
# a power cut of all the wall clock counts.
SLACK_S: Final = 0.25
SIZES: Final = (3, 4, 5)


class ClusterRun:
    """A run with Kafka clients of a cluster."""

    def __init__(self, simulation: Simulation, menu: tuple[str, ...], size: int = 3) -> None:
        self.simulation = simulation
        self.cluster = SimulatedCluster(simulation, size)
        self.context = context_of(self.cluster)
        self.faults = ClusterFaults(self.cluster, menu)
        self.verdict = FinalCheck(self.context, self.faults)
        self.verdict.damage_allowed = True  # A damaged directory is replaced by a full sync instead of being reported.
        self.verdict.lost = lambda: self.faults.flips.lost(REPLICAS_MAX)

    async def begin(self, partitions: int, configs: dict[str, str] | None = None) -> list[Place]:
        """Start the nodes and make the topic, before the first fault."""
        self.cluster.start()
        await self.cluster.up(READY_S)
        await self.context.on_clients(self._make(partitions, configs or {}))
        self.verdict.logs = [Place("events", number) for number in range(partitions)]
        return self.verdict.logs

    async def _make(self, partitions: int, configs: dict[str, str]) -> None:
        hall = await self.context.connect("maker")
        segments = {"segment.bytes": str(self.simulation.stream("play").choice((4_096, 20_000, 2_000_000)))}
        await hall.topics.create("events", partitions=partitions, configs={**segments, **configs})
        self.context.topics.created("events")
        hall.close()

    def write(self, places: list[Place], *, plain: int, idempotent: int, transactional: int, pause_s: float) -> None:
        for number in range(plain):
            self.context.act(write_plainly(self.context, f"plain-{number}", places, pause_s))
        for number in range(idempotent):
            self.context.act(write_idempotently(self.context, f"idempotent-{number}", places, pause_s))
        for number in range(transactional):
            writer = TransactionalWriter(self.context, f"transactional-{number}", places, rising=number % 2 == 1)
            self.verdict.transactional.append(writer)
            self.context.act(writer.run(pause_s * 2))
        self.context.act(follow(self.context, "follower", places, stable=False))
        self.context.act(follow(self.context, "committed-follower", places, stable=True))

    def commit(self, groups: int, pause_s: float) -> None:
        for number in range(groups):
            oracle = OffsetOracle(f"group-{number}", Place("events", 0))
            self.verdict.offsets.append(oracle)
            self.context.act(commit_offsets(self.context, f"committer-{number}", oracle, pause_s))

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

    async def end(self, calm_s: float, *, at_once: bool = True) -> RunResult:
        injection = self.faults.inject_faults(FAULTS_S * self.simulation.share, calm_s, at_once=at_once)
        return await self.end_after(asyncio.ensure_future(injection))

    async def end_after(self, injection: asyncio.Future[Any]) -> RunResult:
        """Wait for the end of the fault injection, then make the final checks."""
        with self.verdict.reports:
            while not injection.done():
                await self.context.watch(1.0)
            await injection
            await self.verdict.speak()
            await self.cluster.watch.check_copies()
        log = self.context.log
        seconds = asyncio.get_running_loop().time()
        digest = self.simulation.trace.digest()
        return RunResult(seconds, log.sends, log.acknowledged, self.cluster.boots, self.faults.happened, digest)


class ClusterQueueRun:
    """A run with SQS clients of a cluster."""

    def __init__(
        self,
        simulation: Simulation,
        menu: tuple[str, ...],
        laws: list[Law],
        size: int = 3,
        *,
        drift_max: float = 0.0,
    ) -> None:
        self.cluster = SimulatedCluster(simulation, size)
        self.context = context_of(self.cluster)
        oracle = QueueOracle(laws, linger_s=LINGER_S, slack_s=SLACK_S, drift_max=drift_max)
        self.clients = QueueRun(self.context, ClusterFaults(self.cluster, menu), oracle)
        self.clients.drain.damage_allowed = True
        self.cluster.start()

    async def end(self, calm_s: float) -> RunResult:
        played = await self.clients.end(FAULTS_S, calm_s)
        await self.cluster.watch.check_copies()
        return played


def context_of(cluster: SimulatedCluster) -> RunContext:
    """A context whose clients know all nodes."""
    context = RunContext(cluster.simulation, cluster)
    context.addresses = cluster.addresses
    context.sqs_places = cluster.sqs_places
    return context


def size_of(simulation: Simulation) -> int:
    """Three to five nodes, by seed."""
    return simulation.stream("size").choice(SIZES)

"""Scenarios of a hall with wings: queues and topics in several replication groups, each with its own leader.

cluster-wings    queues of every placement and of none through the doors of all hosts, one of them with an audit, and
                 recreated queues, while hosts, links, disks and single wing processes fail
namesakes        many queues are created, used, deleted and recreated, while wings are away for a moment
wing-topics      Kafka writers and readers of a topic whose partitions are in several wings, and producers that ask
                 every process for an id, under the same faults
wing-transactions
                 transactions over partitions of three wings and offsets in the hall, and zombies, under the same faults
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Final, final

import msgspec

from longhall.broker.default_placement import GroupFeature, groups_support
from longhall.service.queue_operations import CreateQueue
from simulation.checkers.messages import Law
from simulation.checkers.queues import QueueOracle
from simulation.checkers.violation import demand
from simulation.replicas.fault_injector import ClusterFaults
from simulation.replicas.fault_menus import NAMESAKES, TRANSACTIONS, WINGS
from simulation.replicas.group_processes import GroupProcesses
from simulation.replicas.simulated_cluster import SimulatedCluster
from simulation.scenarios import queue_laws as laws
from simulation.scenarios.audit_reader import compare_audit
from simulation.scenarios.cluster_run import FAULTS_S, LINGER_S, READY_S, SLACK_S, ClusterRun, context_of
from simulation.scenarios.consumers import GOOD, Consumer
from simulation.scenarios.machine import Starter
from simulation.scenarios.producer_ids import small_blocks, take_producer_ids
from simulation.scenarios.producers import body_for, key_of
from simulation.scenarios.queue_run import QueueRun
from simulation.scenarios.recreated_queue import MAKE_S, RecreatedQueue
from simulation.scenarios.run_result import RunResult, Scenario
from simulation.scenarios.sqs_client import SqsClient, Unanswered, url_of
from simulation.scenarios.zombie_producers import write_as_zombie
from simulation.world import Simulation

CALM_S: Final = 7.0
NAMES: Final = 4
ROUNDS: Final = 16
LEASE_S: Final = 300  # Ends long after URGENT_S, and before the drain gives up.
URGENT_S: Final = 60.0
HOME_S: Final = 60.0
LOOK_S: Final = 0.1


@final
class WingQueueRun:
    """A run with SQS clients of queues in wings."""

    def __init__(self, simulation: Simulation, kinds: list[Law], menu: tuple[str, ...] = WINGS) -> None:
        self.cluster = SimulatedCluster(simulation)
        self.group_processes = GroupProcesses(self.cluster)
        self.context = context_of(self.cluster)
        self.oracle = QueueOracle(kinds, linger_s=LINGER_S, slack_s=SLACK_S)
        self.clients = QueueRun(self.context, ClusterFaults(self.cluster, menu), self.oracle)
        self.more: list[Law] = []  # Queues that are made, and that the oracle does not know.
        self.clients.drain.damage_allowed = True
        self.clients.drain.first = self._urgent
        self.cluster.start()

    async def begin(self) -> None:
        """Make the queues, and with them the wings, before the first fault."""
        await self.wait_ready()
        for law in self.oracle.laws.values():
            leader = self.cluster.leader()
            if law.audited and leader is not None:  # No attribute of SQS is for audits.
                settings = msgspec.structs.replace(laws.settings_of(law), placement=law.placement)
                await leader.service.dispatch(CreateQueue(law.name, settings))
        await self.context.on_clients(self._make())

    async def wait_ready(self) -> None:
        """Wait until the cluster serves, with its wings."""
        await self.cluster.up(READY_S)
        await self._groups_up()

    async def _groups_up(self) -> None:
        """Wait until the wings of all hosts can take what has no placement."""
        loop = asyncio.get_running_loop()
        ends_s = loop.time() + READY_S
        while True:
            leader = self.cluster.leader()
            cluster_node = leader.cluster_node if leader is not None else None
            directory = cluster_node.group_directory if cluster_node is not None else None
            if directory is not None and len(directory.spread()) == len(self.cluster.numbers):
                return
            demand(loop.time() < ends_s, f"the hosts have no wings after {READY_S} s: {self.cluster.stand()}")
            await asyncio.sleep(LOOK_S)

    async def change(self, law: Law, pause_s: float) -> None:
        """Change a setting of a queue again and again: it stays where it is."""
        client, chance = SqsClient(self.context), self.context.stream(f"change-{law.name}")
        while not self.context.closing:
            await self.context.rest(chance.expovariate(1 / pause_s))
            attributes = {"ReceiveMessageWaitTimeSeconds": str(chance.randint(0, 2))}
            with suppress(Unanswered):
                await client.call("SetQueueAttributes", QueueUrl=url_of(law.name), Attributes=attributes)

    def check_spread(self) -> None:
        """What was created without a placement is in a wing, and in the one in which it was created."""
        for law in (laws.USUAL, laws.USUAL_LINES, laws.SINGLE):
            places = {tuple(node.hall.catalogue.topics[law.name].options.wings) for node in self.cluster.nodes.values()}
            demand([len(wings) for wings in places] == [1], f"{law.name} is in the wings {places}")

    async def _make(self) -> None:
        client = SqsClient(self.context)
        for law in [*self.oracle.laws.values(), *self.more]:
            while not law.audited and law.parts_max == 1:
                try:
                    attributes = laws.attributes_of(law)
                    await client.call("CreateQueue", MAKE_S, QueueName=law.name, Attributes=attributes)
                    break
                except Unanswered:
                    await asyncio.sleep(0.2)

    async def _urgent(self) -> None:
        """Without faults, messages sent to several hosts at once are received by one consumer, however long its lease.

        A message leased to no consumer would be missing, and one that was delivered unseen would be at its second
        attempt.
        """
        await self.group_processes.at_home(HOME_S)
        consumer = Consumer(self.context, self.oracle, "urgent", laws.URGENT.name, GOOD)
        try:
            for number in range(ROUNDS):
                await self._urgent_round(consumer, [f"urgent-{number}-{host}" for host in self.cluster.numbers])
        except Unanswered:
            return  # The message may be leased to the request that was given up, for its whole lease.

    async def _urgent_round(self, consumer: Consumer, keys: list[str]) -> None:
        loop = asyncio.get_running_loop()
        ends_s = loop.time() + URGENT_S
        sending = [asyncio.ensure_future(self._send(key)) for key in keys]
        missing = set(keys)
        while missing:
            demand(loop.time() < ends_s, f"{missing} were not delivered within {URGENT_S} s after they were sent")
            for got, ticket in await consumer.receive(10, LEASE_S):
                if key_of(got.body) in missing:
                    demand(got.attempts == 1, f"{got.body[:40]} was delivered {got.attempts} times, and seen once")
                missing.discard(key_of(got.body))
                await consumer.settle(got, ticket)
        await asyncio.gather(*sending)

    async def _send(self, key: str) -> None:
        chance = self.context.stream(key)
        await asyncio.sleep(chance.uniform(0, 0.01))
        body = body_for(chance, key)
        now = asyncio.get_running_loop().time
        message = self.oracle.sending(key, laws.URGENT.name, now())
        try:
            self.oracle.sent(message, await SqsClient(self.context).send(laws.URGENT.name, body), now())
        except Unanswered:
            self.oracle.lost_sight(message)

    async def end(self) -> RunResult:
        played = await self.clients.end(FAULTS_S, CALM_S)
        await self.cluster.watch.check_copies()
        await self.group_processes.check_copies()
        return played


async def cluster_wings(simulation: Simulation, starter: Starter) -> RunResult:
    usual = [laws.USUAL, laws.USUAL_LINES, laws.SINGLE]
    audited = laws.AUDITED._replace(placement="share")
    run = WingQueueRun(simulation, [laws.NEAR, laws.APART, laws.SHARED, laws.URGENT, audited, *usual])
    clients, context = run.clients, run.context
    await run.begin()
    clients.send(laws.NEAR, 0.8, 0.2)
    clients.consume(laws.NEAR, 2, 0.5)
    clients.send_in_lines(laws.APART, 2, 0.8)
    clients.consume(laws.APART, 2, 0.5)
    clients.send(laws.SHARED, 1.5)
    clients.consume(laws.SHARED, 1, 1.0)
    clients.send(laws.USUAL, 1.0)
    clients.consume(laws.USUAL, 1, 0.8)
    clients.send_in_lines(laws.USUAL_LINES, 1, 1.0)
    clients.consume(laws.USUAL_LINES, 1, 0.8)
    clients.send(laws.SINGLE, 1.0)
    clients.consume(laws.SINGLE, 2, 0.8)
    clients.send(audited, 1.0)
    clients.consume(audited, 1, 0.8)
    context.act(run.change(laws.USUAL, 5.0))
    reborn = [
        RecreatedQueue(context, "reborn", ("any-host", "parts", "share")),
        RecreatedQueue(context, "again", ("share", "hall", "")),
    ]
    for one in reborn:
        context.act(one.run(0.3))
    played = await run.end()
    run.check_spread()
    await context.on_clients(compare_audit(clients, audited))
    return played


async def namesakes(simulation: Simulation, starter: Starter) -> RunResult:
    run = WingQueueRun(simulation, [laws.NEAR, laws.URGENT], NAMESAKES)
    await run.begin()
    run.clients.send(laws.NEAR, 3.0)
    run.clients.consume(laws.NEAR, 1, 1.0)
    for number in range(NAMES):
        run.context.act(RecreatedQueue(run.context, f"name{number}", ("any-host", "parts", "share")).run(0.1))
    return await run.end()


async def wing_topics(simulation: Simulation, starter: Starter) -> RunResult:
    run = ClusterRun(simulation, WINGS)
    group_processes = GroupProcesses(run.cluster)
    apart = {} if groups_support(GroupFeature.TRANSACTIONS) else {"longhall.placement": "parts"}
    places = await run.begin(6, apart)
    run.write(places, plain=2, idempotent=2, transactional=0, pause_s=0.4)
    run.commit(1, 1.0)
    run.belong(2)
    given: set[int] = set()
    for number in range(2):
        run.context.act(take_producer_ids(run.context, f"producer-ids-{number}", given, 0.1))
    with small_blocks():
        played = await run.end(CALM_S)
    await group_processes.check_copies()
    return played


async def wing_transactions(simulation: Simulation, starter: Starter) -> RunResult:
    run = ClusterRun(simulation, TRANSACTIONS)
    group_processes = GroupProcesses(run.cluster)
    places = await run.begin(6, {"longhall.placement": "parts"})
    run.write(places, plain=0, idempotent=1, transactional=4, pause_s=0.3)
    run.context.act(write_as_zombie(run.context, "zombie", places, 2.0))
    played = await run.end(CALM_S)
    await group_processes.check_copies()
    return played


WING_SCENARIOS: Final[dict[str, Scenario]] = {
    "cluster-wings": cluster_wings,
    "wing-topics": wing_topics,
    "wing-transactions": wing_transactions,
    "namesakes": namesakes,
}

"""Whole nodes as one hall with wings beside it: queues and topics that several logs keep, each with its own leader.

cluster-wings    queues of every placement through the doors of all hosts, and names that are used again, while hosts,
                 links, disks and single processes of wings fail
namesakes        many names under which queues are made, used, deleted and made again, while wings are away for a moment
wing-topics      Kafka writers and readers of a topic whose partitions are in several wings, likewise
"""

from __future__ import annotations

import asyncio
from typing import Final, final

from simulation.checkers.messages import Law
from simulation.checkers.queues import QueueOracle
from simulation.checkers.violation import demand
from simulation.replicas.faults import Faults
from simulation.replicas.fleet import Fleet
from simulation.replicas.menus import NAMESAKES, WINGS
from simulation.replicas.wards import Wards
from simulation.scenarios import laws
from simulation.scenarios.cluster_play import LINGER_S, RAGE_S, READY_S, SLACK_S, ClusterPlay, stage_of
from simulation.scenarios.consumers import GOOD, Consumer
from simulation.scenarios.machine import Starter
from simulation.scenarios.played import Played, Scenario
from simulation.scenarios.producers import body_for, key_of
from simulation.scenarios.queue_play import QueuePlay
from simulation.scenarios.reborn import MAKE_S, Reborn
from simulation.scenarios.sqs import SqsClient, Unanswered
from simulation.world import Simulation

CALM_S: Final = 7.0
NAMES: Final = 4
ROUNDS: Final = 16
LEASE_S: Final = 300  # Ends long after URGENT_S, and before the drain loses its patience.
URGENT_S: Final = 60.0
HOME_S: Final = 60.0


@final
class WingPlay:
    """SQS clients of queues in wings."""

    def __init__(self, simulation: Simulation, kinds: list[Law], menu: tuple[str, ...] = WINGS) -> None:
        self.fleet = Fleet(simulation)
        self.wards = Wards(self.fleet)
        self.stage = stage_of(self.fleet)
        self.oracle = QueueOracle(kinds, linger_s=LINGER_S, slack_s=SLACK_S)
        self.clients = QueuePlay(self.stage, Faults(self.fleet, menu), self.oracle)
        self.clients.drain.damage_allowed = True
        self.clients.drain.first = self._urgent
        self.fleet.start()

    async def begin(self) -> None:
        """Make the queues, and with them the wings, before anything breaks."""
        await self.fleet.up(READY_S)
        await self.stage.on_clients(self._make())

    async def _make(self) -> None:
        client = SqsClient(self.stage)
        for law in self.oracle.laws.values():
            while True:
                try:
                    attributes = laws.attributes_of(law)
                    await client.call("CreateQueue", MAKE_S, QueueName=law.name, Attributes=attributes)
                    break
                except Unanswered:
                    await asyncio.sleep(0.2)

    async def _urgent(self) -> None:
        """All is well: what several hosts take at once is received by somebody who wants it, however long its lease.
        Whatever were leased to nobody would be missed, and what somebody had unseen would be a second attempt.
        """
        await self.wards.at_home(HOME_S)
        consumer = Consumer(self.stage, self.oracle, "urgent", laws.URGENT.name, GOOD)
        try:
            for number in range(ROUNDS):
                await self._urgent_round(consumer, [f"urgent-{number}-{host}" for host in self.fleet.numbers])
        except Unanswered:
            return  # Then it may be leased to whoever gave up, for as long as was asked for.

    async def _urgent_round(self, consumer: Consumer, keys: list[str]) -> None:
        loop = asyncio.get_running_loop()
        ends_s = loop.time() + URGENT_S
        sending = [asyncio.ensure_future(self._send(key)) for key in keys]
        missing = set(keys)
        while missing:
            demand(loop.time() < ends_s, f"{missing} are leased to nobody, {URGENT_S} s after they were sent")
            for got, ticket in await consumer.receive(10, LEASE_S):
                if key_of(got.body) in missing:
                    demand(got.attempts == 1, f"{got.body[:40]} was given out {got.attempts} times, and seen once")
                missing.discard(key_of(got.body))
                await consumer.settle(got, ticket)
        await asyncio.gather(*sending)

    async def _send(self, key: str) -> None:
        chance = self.stage.stream(key)
        await asyncio.sleep(chance.uniform(0, 0.01))
        body = body_for(chance, key)
        now = asyncio.get_running_loop().time
        message = self.oracle.sending(key, laws.URGENT.name, now())
        try:
            self.oracle.sent(message, await SqsClient(self.stage).send(laws.URGENT.name, body), now())
        except Unanswered:
            self.oracle.lost_sight(message)

    async def end(self) -> Played:
        played = await self.clients.end(RAGE_S, CALM_S)
        await self.fleet.watch.check_copies()
        await self.wards.check_copies()
        return played


async def cluster_wings(simulation: Simulation, starter: Starter) -> Played:
    play = WingPlay(simulation, [laws.NEAR, laws.APART, laws.SHARED, laws.URGENT])
    clients, stage = play.clients, play.stage
    await play.begin()
    clients.send(laws.NEAR, 0.8, 0.2)
    clients.consume(laws.NEAR, 2, 0.5)
    clients.send_in_lines(laws.APART, 2, 0.8)
    clients.consume(laws.APART, 2, 0.5)
    clients.send(laws.SHARED, 1.5)
    clients.consume(laws.SHARED, 1, 1.0)
    reborn = [Reborn(stage, "reborn", ("any-host", "parts", "share")), Reborn(stage, "again", ("share", "hall"))]
    for one in reborn:
        stage.act(one.run(0.3))
    return await play.end()


async def namesakes(simulation: Simulation, starter: Starter) -> Played:
    play = WingPlay(simulation, [laws.NEAR, laws.URGENT], NAMESAKES)
    await play.begin()
    play.clients.send(laws.NEAR, 3.0)
    play.clients.consume(laws.NEAR, 1, 1.0)
    for number in range(NAMES):
        play.stage.act(Reborn(play.stage, f"name{number}", ("any-host", "parts", "share")).run(0.1))
    return await play.end()


async def wing_topics(simulation: Simulation, starter: Starter) -> Played:
    play = ClusterPlay(simulation, WINGS)
    wards = Wards(play.fleet)
    places = await play.begin(6, {"longhall.placement": "parts"})
    play.write(places, plain=2, idempotent=2, transactional=0, pause_s=0.4)
    play.commit(1, 1.0)
    play.belong(2)
    played = await play.end(CALM_S)
    await wards.check_copies()
    return played


WING_SCENARIOS: Final[dict[str, Scenario]] = {
    "cluster-wings": cluster_wings,
    "wing-topics": wing_topics,
    "namesakes": namesakes,
}

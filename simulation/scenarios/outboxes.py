"""Scenarios of messages that move between replication groups.

outbox            dead letters, those of a deleted queue too, and answers between a hall and two wings of one replica
                  each, which are killed and lose their power all the time, while a tenth of all calls between them is
                  lost
cluster-outbox    dead letters, redrives and answers between the hall and wings, while hosts, links, disks, leaders and
                  single wing processes fail: each message exists once, and none is lost

The seed of `cluster-outbox` decides where the queues are: the queue, its dead letters and the queue that gets some of
them are in three different groups, or in all of them.
"""

from __future__ import annotations

import asyncio
import itertools
from typing import Final, final

from longhall.errors import LonghallError
from longhall.queues.messages import Outgoing
from longhall.queues.settings import DeadLetters, QueueSettings
from longhall.service import queue_operations as ops
from simulation.checkers.messages import Law
from simulation.checkers.outboxes import OutboxOracle
from simulation.checkers.violation import Violation
from simulation.replicas.fault_menus import WINGS
from simulation.scenarios import queue_laws as laws
from simulation.scenarios.cluster_run import FAULTS_S
from simulation.scenarios.group_halls import GroupHalls, break_groups
from simulation.scenarios.machine import Starter
from simulation.scenarios.request_reply import ASKS, REPLIES, RequestReplyClients
from simulation.scenarios.run_result import RunResult, Scenario
from simulation.scenarios.wings import WingQueueRun
from simulation.world import Simulation

# Of the queue, of its dead letters, of the revived messages, of questions and of replies.
PLACEMENTS: Final = (
    ("share", "hall", "share", "share", "hall"),
    ("hall", "share", "parts", "hall", "share"),
    ("parts", "share", "hall", "parts", "share"),
    ("share", "any-host", "hall", "share", "parts"),
)
GONE: Final = "gone"  # A queue that is deleted at once: what arrives for it goes to its dead letters.
# By queue: its placement, its dead letters or replies, and their placement.
FLOWS: Final = {
    "work": ("share", "dead-in-hall", "hall"),
    "near": ("hall", "dead-in-wing", "share"),
    "wide": ("parts", "dead-in-hall-too", "hall"),
    "thin": ("hall", "dead-in-parts", "parts"),
    ASKS: ("share", REPLIES, "hall"),
    GONE: ("hall", "dead-of-gone", "share"),
}
LEASE_MS: Final = 700
SEND_S: Final = 0.25
USE_S: Final = 0.2
DRAIN_LOOKS: Final = 120
TALK: Final = (Law(REPLIES), Law(ASKS))


async def cluster_outbox(simulation: Simulation, starter: Starter) -> RunResult:
    poison, dead, revived, asks, replies = PLACEMENTS[simulation.seed % len(PLACEMENTS)]
    kinds = [
        laws.DEAD._replace(placement=dead),
        laws.REVIVED._replace(placement=revived),
        laws.POISON._replace(placement=poison),
        laws.URGENT,
    ]
    run = WingQueueRun(simulation, kinds, (*WINGS, *("kill_a_ward",) * 3))
    run.more = [law._replace(placement=at) for law, at in zip(TALK, (replies, asks), strict=True)]
    await run.begin()
    run.clients.poison(0.5)
    talk = RequestReplyClients(run.context)
    for number in range(2):
        run.context.act(talk.ask(f"asker-{number}", 0.8))
        run.context.act(talk.answer(f"answerer-{number}", 0.3, until_empty=number == 0))
    run.context.act(talk.listen("listener", 0.4))
    played = await run.end()
    talk.oracle.account()
    return played


@final
class OutboxRun:
    """A run of `outbox`: queues whose messages all die or are answered, and the faults meanwhile."""

    def __init__(self, simulation: Simulation) -> None:
        self.halls = GroupHalls(simulation, 2)
        self.oracle = OutboxOracle()
        self.faults = 0
        self.closing = False
        self._simulation = simulation

    async def make(self) -> None:
        """Start all groups and make the queues."""
        for group in self.halls.groups.values():
            await group.start()
        for name, (placement, target, to) in FLOWS.items():
            await self.halls.ask(ops.CreateQueue(target, QueueSettings(placement=to)))
            letters = None if name == ASKS else DeadLetters(queue=target, attempts_max=1, after_delete=name == GONE)
            settings = QueueSettings(placement=placement, lease_ms=LEASE_MS, dead_letters=letters)
            await self.halls.ask(ops.CreateQueue(name, settings))
        await self.halls.ask(ops.DeleteQueue(GONE))

    async def send(self, name: str) -> None:
        chance = self._simulation.stream(f"send {name}")
        target = FLOWS[name][1]
        for number in itertools.count():
            await asyncio.sleep(chance.expovariate(1 / SEND_S))
            if self.closing:
                return
            key = f"{name}-{number}"
            self.oracle.sending(key, target)
            message = Outgoing(body=key.encode(), reply_to=target if name == ASKS else "")
            try:
                (accepted,) = await self.halls.ask(ops.SendMessages(name, [message]))
            except LonghallError:
                continue
            if accepted.code is None:
                self.oracle.sent(key)

    async def use(self, name: str) -> None:
        """Receive without settling, so that messages die; questions are answered."""
        while True:
            await asyncio.sleep(USE_S)
            try:
                for got in await self.halls.ask(ops.ReceiveMessages(name, 10, 0, LEASE_MS)):
                    if name == ASKS:
                        await self.halls.ask(ops.AnswerMessage(name, got.receipt, Outgoing(body=got.body)))
            except LonghallError:
                continue

    async def drain(self) -> None:
        """Empty the sources and the outboxes, and then the targets."""
        for _ in range(DRAIN_LOOKS):
            await asyncio.sleep(1.0)
            depths = [await self.halls.ask(ops.MeasureQueue(name)) for name in FLOWS if name != GONE]
            groups = [group.queues for group in self.halls.groups.values()]
            waiting = sum(queues.outbox.waiting for queues in groups if queues is not None)
            if not waiting and not any(depth.available + depth.in_flight for depth in depths):
                break
        else:
            raise Violation(f"messages still wait after {DRAIN_LOOKS} s without faults")
        for target in sorted({target for _, target, _ in FLOWS.values()}):
            while found := await self.halls.ask(ops.ReceiveMessages(target, 10, 0, 600_000)):
                for got in found:
                    self.oracle.received(target, got.body.decode())
                await self.halls.ask(ops.SettleMessages(target, [got.receipt for got in found]))
        self.oracle.account()


async def outbox(simulation: Simulation, starter: Starter) -> RunResult:
    run = OutboxRun(simulation)
    await run.make()
    clients = [asyncio.ensure_future(run.send(name)) for name in FLOWS]
    clients += [asyncio.ensure_future(run.use(name)) for name in FLOWS if name != GONE]
    run.faults = await break_groups(run.halls, simulation, FAULTS_S * simulation.share)
    run.closing = True
    await run.drain()
    for client in clients:
        client.cancel()
    await asyncio.gather(*clients, return_exceptions=True)
    oracle = run.oracle
    return RunResult(
        asyncio.get_running_loop().time(),
        oracle.sends,
        oracle.acknowledged,
        sum(group.host.boots for group in run.halls.groups.values()),
        run.faults,
        simulation.trace.digest(),
        sum(oracle.found.values()),
        sum(oracle.found.values()),
        sum(oracle.found.values()),
    )


OUTBOX_SCENARIOS: Final[dict[str, Scenario]] = {"cluster-outbox": cluster_outbox, "outbox": outbox}

"""The scenario `queue-moves`: a FIFO queue moves between a hall and two wings of one replica each.

The groups are killed and lose their power all the time, calls are lost or arrive late, and clients often ask a group
that does not serve the queue. Senders repeat what they have no answer to, under the same deduplication id; receivers
hold their leases across moves, and settle or return with the receipts that they have.
"""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from typing import Any, Final, final

from longhall.cluster.rpc.operation import Operation
from longhall.errors import Code, LonghallError
from longhall.queues.messages import Delivery, Outgoing
from longhall.queues.settings import QueueSettings
from longhall.service import queue_operations as ops
from simulation.checkers.moved_queues import MovedQueueOracle
from simulation.checkers.violation import Violation, demand
from simulation.loop import PowerCut
from simulation.scenarios.cluster_run import FAULTS_S
from simulation.scenarios.group_halls import MAIN, GroupHalls
from simulation.scenarios.machine import Starter
from simulation.scenarios.run_result import RunResult
from simulation.world import Simulation

QUEUE: Final = "orders"
WINGS: Final = 2
PARTITIONS: Final = 2
SENDERS: Final = 4  # Each has two FIFO groups.
RECEIVERS: Final = 3
LOSSES: Final = 0.05  # Of the calls, and as many of the replies: with more hardly a queue moves.
CALM_S: Final = 4.0  # Between two faults.
SEND_S: Final = 0.3
FILLINGS: Final = (0, 100, 3_000)  # Bytes of a message: segments become full, and are deleted when all is settled.
LATE: Final = 0.1  # The share of delayed messages.
DELAY_MS: Final = 1_000
MOVE_S: Final = 4.0
LEASE_MS: Final = 8_000
STALE: Final = 0.2  # The chance that a client asks any group.
CANCELLED: Final = 0.1
ENDED_S: Final = 120.0


@final
class QueueMoveRun:
    """A run of `queue-moves`: clients, an operator who moves the queue, and faults."""

    def __init__(self, simulation: Simulation) -> None:
        self.halls = GroupHalls(simulation, WINGS)
        self.halls.late_calls = True
        self.oracle = MovedQueueOracle(QUEUE)
        self.faults = self.moves = 0
        self.closing = False
        self._simulation = simulation

    async def make(self) -> None:
        """Start all groups and make the queue, in the hall."""
        for group in self.halls.groups.values():
            await group.start()
        settings = QueueSettings(
            fifo=True, deduplication="id", placement="hall", partitions=PARTITIONS, lease_ms=LEASE_MS
        )
        await self.halls.ask(ops.CreateQueue(QUEUE, settings))

    async def send(self, number: int) -> None:
        """Send messages of two FIFO groups. A message without an answer is sent again.

        All messages of the second group are delayed: a delayed message takes its place when it is due, so within one
        group it would be overtaken.
        """
        chance = self._simulation.stream(f"send {number}")
        sequences: Counter[str] = Counter()
        while True:
            await asyncio.sleep(chance.expovariate(1 / SEND_S))
            if self.closing:
                return
            is_late = chance.random() < LATE
            group = f"{number}-late" if is_late else str(number)
            key = f"{group}-{sequences[group]}"
            sequences[group] += 1
            self.oracle.sends += 1
            filling = b" " * chance.choice(FILLINGS)
            message = Outgoing(
                body=key.encode() + filling, group=group, deduplication_id=key, delay_ms=DELAY_MS if is_late else 0
            )
            while True:
                found = await self._ask(chance, ops.SendMessages(QUEUE, [message]))
                if found and found[0].code is None:
                    self.oracle.sent(key, found[0].message_id)
                    break
                await asyncio.sleep(chance.uniform(0.05, 0.5))

    async def receive(self, number: int) -> None:
        """Receive, hold for a while, and settle, extend or return."""
        chance = self._simulation.stream(f"receive {number}")
        loop = asyncio.get_running_loop()
        while not self.closing:
            asked_s = loop.time()
            wait_ms = chance.choice((0, 1_000))
            found = await self._ask(chance, ops.ReceiveMessages(QUEUE, 3, wait_ms=wait_ms, lease_ms=LEASE_MS))
            for one in found or ():
                key = key_of(one)
                self.oracle.received(key, one.message_id, loop.time(), asked_s + LEASE_MS / 1000)
            await asyncio.sleep(chance.uniform(0.05, 3.0))
            for one in found or ():
                await self._end(chance, one, asked_s + LEASE_MS / 1000)

    async def _end(self, chance: random.Random, one: Delivery, until_s: float) -> None:
        """End a lease: mostly by a settle. Now and then it is left to its time."""
        loop = asyncio.get_running_loop()
        kind = chance.random()
        if kind < 0.1:
            return
        key = key_of(one)
        operation: Operation[list[Code | None]]
        if kind < 0.2:
            operation = ops.ChangeLeases(QUEUE, [(one.receipt, 0)])
        else:
            operation = ops.SettleMessages(QUEUE, [one.receipt])
        self.oracle.tries(key)
        codes = await self._ask(chance, operation, stale=False)
        if codes is None:
            self.oracle.lost(key)
        else:
            in_time = loop.time() < until_s - 1.5
            self.oracle.ended(key, codes[0], settles=kind >= 0.2, in_time=in_time)

    async def move(self) -> None:
        """Begin and cancel moves."""
        chance = self._simulation.stream("moves")
        while not self.closing:
            await asyncio.sleep(chance.expovariate(1 / MOVE_S))
            mover, process = self.halls.groups[MAIN].mover, self.halls.groups[MAIN].host.process
            if mover is None or process is None:
                continue
            target = chance.randrange(WINGS + 1)
            cancels = chance.random() < CANCELLED
            work = mover.cancel(QUEUE) if cancels else mover.begin(QUEUE, dict.fromkeys(range(PARTITIONS), target))
            self.moves += await self._inside(process, work) or 0

    async def _inside(self, process: Any, work: Any) -> Any:
        task = process.start(work)
        await asyncio.wait({task, process.ended}, timeout=3.0, return_when=asyncio.FIRST_COMPLETED)
        if not task.done() or task.cancelled():
            return None
        error = task.exception()
        if error is not None and not isinstance(error, LonghallError | PowerCut | OSError):
            raise error
        return task.result() if error is None else None

    async def _ask(self, chance: random.Random, operation: Operation[Any], *, stale: bool = True) -> Any:
        """The reply, through the hall or of any group; None without one, or if it is refused."""
        try:
            if stale and chance.random() < STALE:
                return await self.halls.call(chance.randrange(WINGS + 1), operation)
            return await self.halls.ask(operation)
        except LonghallError:
            return None

    async def break_groups(self, seconds: float) -> None:
        """Kill a group or cut its power now and then."""
        chance = self._simulation.stream("faults")
        loop = asyncio.get_running_loop()
        ends_s = loop.time() + seconds
        self.halls.losses = LOSSES
        while loop.time() < ends_s:
            await asyncio.sleep(chance.expovariate(1 / CALM_S))
            group = self.halls.groups[chance.randrange(len(self.halls.groups))]
            self._simulation.trace.note("fault", f"group {group.number}")
            self.faults += 1
            group.end(power=chance.random() < 0.6)
            await asyncio.sleep(chance.uniform(0.0, 0.5))
            await group.start()
        self.halls.losses = 0.0
        self.closing = True

    async def account(self) -> None:
        """Wait for the end of all moves and of all leases, then drain the queue."""
        loop = asyncio.get_running_loop()
        ends_s = loop.time() + ENDED_S
        while (problem := self._unfinished()) is not None:
            if loop.time() > ends_s:
                raise Violation(f"after {ENDED_S} s without faults {problem}")
            await asyncio.sleep(0.2)
        await asyncio.sleep(LEASE_MS / 1000 + 5.0)
        rest: set[str] = set()
        while True:
            found: list[Delivery] = await self.halls.ask(ops.ReceiveMessages(QUEUE, 10, lease_ms=600_000))
            if not found:
                break
            rest.update(key_of(one) for one in found)
            await self.halls.ask(ops.SettleMessages(QUEUE, [one.receipt for one in found]))
        self.oracle.account(rest)

    def _unfinished(self) -> str | None:
        main = self.halls.groups[MAIN]
        topic = main.hall.topic(QUEUE) if main.hall is not None else None
        if topic is None or main.mover is None:
            return "the hall is down"
        if topic.options.moves.moves:
            return f"the queue still moves: {main.mover.progress()}"
        owner = topic.options.wings[0] if topic.options.wings else MAIN
        for number, group in self.halls.groups.items():
            queue = group.hall.running_queue(QUEUE) if group.hall is not None else None
            if queue is None:
                continue
            if queue.is_away == (owner == number):
                raise Violation(f"the owner is {owner}; group {number} differs")
            if queue.is_away and (queue.hidden or any(one.log.segments for one in queue.route)):
                raise Violation(f"the owner is {owner}; group {number} has messages")
        return None

    def switches(self) -> int:
        """How often the queue got another owner."""
        hall = self.halls.groups[MAIN].hall
        topic = hall.topic(QUEUE) if hall is not None else None
        return max(topic.options.moves.counts.values(), default=0) if topic is not None else 0


def key_of(one: Delivery) -> str:
    """The key of a message, which its body begins with."""
    return one.body.decode().rstrip()


async def queue_moves(simulation: Simulation, starter: Starter) -> RunResult:
    run = QueueMoveRun(simulation)
    await run.make()
    clients = [run.send(number) for number in range(SENDERS)] + [run.receive(number) for number in range(RECEIVERS)]
    tasks = [asyncio.ensure_future(client) for client in [*clients, run.move()]]
    breaking = asyncio.ensure_future(run.break_groups(FAULTS_S * simulation.share))
    await asyncio.wait([breaking, *tasks], return_when=asyncio.FIRST_EXCEPTION)
    for task in [breaking, *tasks]:
        if task.done():
            task.result()
    await asyncio.gather(breaking, *tasks)
    await run.account()
    demand(run.switches() > 0 or simulation.share < 1, "the queue has not moved")
    return RunResult(
        asyncio.get_running_loop().time(),
        run.oracle.sends,
        len(run.oracle.acknowledged),
        sum(group.host.boots for group in run.halls.groups.values()),
        run.faults,
        simulation.trace.digest(),
        run.oracle.delivered,
        run.moves,
        run.switches(),
    )

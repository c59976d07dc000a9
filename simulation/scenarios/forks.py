"""Scenario of forks in replication groups: `forks`.

A hall and two wings of one replica each, which are killed and lose their power all the time, while a tenth of all calls
between them is lost. A queue in a wing keeps its messages; one name after another is forked from it, at an offset that
the seed chooses, is drained, deleted, and forked again. A fork reaches its wing late, because the wing was away when it
was made, and an earlier one of its name may still be there.
"""

from __future__ import annotations

import asyncio
import itertools
from typing import Final, final

from longhall.errors import Code, LonghallError
from longhall.queues.messages import Outgoing
from longhall.queues.settings import QueueSettings
from longhall.service import queue_operations as ops
from simulation.checkers.forks import ForkOracle
from simulation.checkers.violation import demand
from simulation.scenarios.cluster_run import FAULTS_S
from simulation.scenarios.group_halls import GroupHalls, break_groups
from simulation.scenarios.machine import Starter
from simulation.scenarios.run_result import RunResult, Scenario
from simulation.world import Simulation

SOURCE: Final = "source"
FORK: Final = "fork"
SEND_S: Final = 0.2
AGAIN_S: Final = 0.1
TRIES_MAX: Final = 3_000
DRAIN_S: Final = 120.0
LEASE_MS: Final = 2_000
# The sequence number of a FIFO queue with one partition is the offset.
KEPT: Final = QueueSettings(placement="share", settled="keep", fifo=True, deduplication="id")
# The outcome of a call with one of these is unknown, or nothing was done.
UNSURE: Final = frozenset({Code.NOT_READY, Code.TIMED_OUT, Code.NOT_LEADER})


@final
class ForkRun:
    """A run of `forks`: one source, and one fork at a time."""

    def __init__(self, simulation: Simulation) -> None:
        self.halls = GroupHalls(simulation, 2)
        self.oracle = ForkOracle()
        self.closing = False
        self._simulation = simulation

    async def make(self) -> None:
        """Start all groups and make the source."""
        for group in self.halls.groups.values():
            await group.start()
        await self.halls.ask(ops.CreateQueue(SOURCE, KEPT))

    async def send(self) -> None:
        """Send messages. One that was not acknowledged may be in the log."""
        chance = self._simulation.stream("send")
        for number in itertools.count():
            await asyncio.sleep(chance.expovariate(1 / SEND_S))
            if self.closing:
                return
            key = f"m{number}"
            self.oracle.sends += 1
            message = Outgoing(body=key.encode(), group="g", deduplication_id=key)
            try:
                (accepted,) = await self.halls.ask(ops.SendMessages(SOURCE, [message]))
            except LonghallError:
                continue
            if accepted.code is None:
                self.oracle.acknowledged[accepted.sequence] = key

    async def fork(self) -> None:
        """Fork, drain and delete, until the faults end, and once more after them."""
        chance = self._simulation.stream("fork")
        last = False
        while not last:
            last = self.closing
            if not self.oracle.acknowledged:
                await asyncio.sleep(SEND_S)
                continue
            start = chance.randint(0, max(self.oracle.acknowledged))
            self.oracle.forking(start)
            await self._until(ops.ForkQueue(SOURCE, FORK, {0: start}), Code.QUEUE_EXISTS)
            await self._drain()
            await self._until(ops.DeleteQueue(FORK), Code.UNKNOWN_QUEUE)

    async def _until(self, operation: ops.ForkQueue | ops.DeleteQueue, done: Code) -> None:
        """Repeat an operation until it is done: its outcome may be unknown."""
        for _ in range(TRIES_MAX):
            try:
                await self.halls.ask(operation)
                return
            except LonghallError as error:
                if error.code is done:
                    return
                demand(error.code in UNSURE, f"{type(operation).__name__} failed: {error}")
            await asyncio.sleep(AGAIN_S)
        demand(False, f"{type(operation).__name__} did not succeed")

    async def _drain(self) -> None:
        """Receive and settle everything that the fork has to deliver."""
        loop = asyncio.get_running_loop()
        ends_s = loop.time() + DRAIN_S
        while self.oracle.left():
            late = loop.time() > ends_s
            demand(not late, f"{self.oracle.left()} messages of a fork were not delivered in {DRAIN_S} s")
            try:
                found = await self.halls.ask(ops.ReceiveMessages(FORK, 10, 0, LEASE_MS))
                for got in found:
                    self.oracle.received(got.offset, got.body.decode())
                codes = await self.halls.ask(ops.SettleMessages(FORK, [got.receipt for got in found])) if found else []
                for got, code in zip(found, codes, strict=True):
                    if code is None:
                        self.oracle.settled(got.offset)
            except LonghallError as error:
                demand(error.code in UNSURE, f"a fork that exists was refused: {error}")
            await asyncio.sleep(AGAIN_S)


async def forks(simulation: Simulation, starter: Starter) -> RunResult:
    run = ForkRun(simulation)
    await run.make()
    sending, forking = asyncio.ensure_future(run.send()), asyncio.ensure_future(run.fork())
    faults = asyncio.ensure_future(break_groups(run.halls, simulation, FAULTS_S * simulation.share))
    await asyncio.wait({faults, forking}, return_when=asyncio.FIRST_COMPLETED)
    if forking.done():
        forking.result()
    run.closing = True
    await forking
    await sending
    oracle = run.oracle
    return RunResult(
        asyncio.get_running_loop().time(),
        oracle.sends,
        len(oracle.acknowledged),
        sum(group.host.boots for group in run.halls.groups.values()),
        await faults,
        simulation.trace.digest(),
        oracle.delivered,
        oracle.delivered,
        oracle.forks,
    )


FORK_SCENARIOS: Final[dict[str, Scenario]] = {"forks": forks}

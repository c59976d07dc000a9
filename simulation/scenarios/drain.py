"""The end of a run with queues: after healing, every message is received and settled, and the counts must balance.

A healed hall makes progress: redrives end, delays fire, leases end, and the queues report that they are empty. Then the
power is cut once more, and no message may come back.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from functools import partial
from typing import Any, Final, TypeVar, final

from simulation.checkers.queues import QueueOracle
from simulation.checkers.violation import Violation, demand
from simulation.scenarios.consumers import GOOD, Consumer
from simulation.scenarios.fault_injector import FaultInjector
from simulation.scenarios.final_check import ACTORS_S, HEALED_S
from simulation.scenarios.machine import DamageReports
from simulation.scenarios.run_context import RunContext
from simulation.scenarios.sqs_client import SqsClient, SqsRefusal, Unanswered

QUIET_S: Final = 15.0  # Longer than any lease that a consumer can have abandoned.
ANSWER_S: Final = 30.0
PAUSE_S_MAX: Final = 120.0  # While only long delays are left.

_T = TypeVar("_T")


@final
class Drain:
    """Drains all queues and checks them. `patience_s` is how long the longest delay may still take."""

    def __init__(self, context: RunContext, faults: FaultInjector, oracle: QueueOracle) -> None:
        self.patience_s = 400.0
        self.damage_allowed = False
        self.reports = DamageReports()
        self.first: Callable[[], Coroutine[Any, Any, None]] | None = None  # Runs on the clients' host before the drain.
        self._context = context
        self._faults = faults
        self._oracle = oracle
        self._client = SqsClient(context)

    async def speak(self) -> None:
        context = self._context
        self._faults.heal()
        await context.deployment.up(HEALED_S)
        await context.close_actors(ACTORS_S)
        if self.first is not None:
            await context.on_clients(self.first())
        await context.on_clients(self._drain())
        self._oracle.account()
        context.deployment.cut_power()
        await context.deployment.up(HEALED_S)
        await context.on_clients(self._stays_empty())
        said = self.reports.sentences
        demand(self.damage_allowed or not said, f"the node reports damage, and nothing was damaged: {said[:1]}")
        context.check_failures()
        context.close()

    async def _drain(self) -> None:
        loop = asyncio.get_running_loop()
        consumers = {queue: self._consumer(queue) for queue in self._oracle.laws}
        ends_s = loop.time() + self.patience_s
        quiet_since_s = loop.time()
        while True:
            for queue, consumer in consumers.items():
                if await self._empty(queue, consumer):
                    quiet_since_s = loop.time()
            full = await self._what_is_left()
            if not full and loop.time() - quiet_since_s > QUIET_S:
                self._context.topics.settle(await self._surely(self._client.queues))
                return
            if loop.time() > ends_s:
                raise Violation(f"the queues were not empty within {self.patience_s} s: {full}")
            quiet_s = loop.time() - quiet_since_s
            await asyncio.sleep(0.5 if quiet_s < QUIET_S else min(quiet_s / 3, PAUSE_S_MAX))

    async def _empty(self, queue: str, consumer: Consumer) -> int:
        """Receive and settle all available messages; returns their number."""
        count = 0
        while True:
            found = await self._surely(partial(consumer.receive, 10, 12))
            for got, ticket in found:
                if got.receipt:
                    await self._surely(partial(consumer.settle, got, ticket))
            count += len(found)
            if not found:
                return count

    async def _what_is_left(self) -> dict[str, object]:
        """Queues that are not empty, and redrives that have not ended."""
        left: dict[str, object] = {}
        for queue in self._oracle.laws:
            depth = await self._surely(partial(self._client.depth, queue))
            if any(depth.values()):
                left[queue] = depth
        for source in sorted({law.dead for law in self._oracle.laws.values()} - {""}):
            for task in await self._surely(partial(self._client.moves, source)):
                demand(task["Status"] != "FAILED", f"{source}: a move failed by itself: {task}")
                if task["Status"] in ("RUNNING", "CANCELLING"):
                    left[f"moves of {source}"] = task
        return left

    async def _stays_empty(self) -> None:
        loop = asyncio.get_running_loop()
        ends_s = loop.time() + QUIET_S
        while loop.time() < ends_s:
            for queue in self._oracle.laws:
                found = await self._surely(partial(self._consumer(queue).receive, 10, 12))
                demand(not found, f"{queue} was empty before the power was cut, and now it has {found[:1]}")
            await asyncio.sleep(3.0)
        self._context.topics.settle(await self._surely(self._client.queues))
        left = await self._what_is_left()
        demand(not left, f"all queues were empty before the power was cut, and now there is {left}")

    def _consumer(self, queue: str) -> Consumer:
        return Consumer(self._context, self._oracle, f"drain-{queue}", queue, GOOD)

    async def _surely(self, question: Callable[[], Awaitable[_T]]) -> _T:
        """Repeat the request until it is answered: no fault is active any more."""
        loop = asyncio.get_running_loop()
        ends_s = loop.time() + ANSWER_S
        while True:
            try:
                return await question()
            except (Unanswered, SqsRefusal) as failure:
                if loop.time() > ends_s:
                    raise Violation(
                        f"no answer within {ANSWER_S} s after everything was healed: {failure!r}"
                    ) from failure
                await asyncio.sleep(0.2)

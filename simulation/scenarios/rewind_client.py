"""The only client of a queue with `settled: keep`: it rewinds to the start or to any position, and forks.

It is alone on its queue, so that the messages due are known at every moment, while the node crashes.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, Final, TypeVar, final

from longhall.broker.queues.upkeep.rewind import Destination
from longhall.errors import Code
from longhall.queues.settings import QueueSettings
from simulation.checkers.rewinds import RewindOracle
from simulation.checkers.violation import Violation, demand
from simulation.scenarios.in_process_client import Question, ask_inside
from simulation.scenarios.producers import body_for, key_of
from simulation.scenarios.run_context import RunContext
from simulation.scenarios.sqs_client import ReceivedMessage, SqsClient, SqsRefusal, Unanswered, url_of

LEASE_S: Final = 3
KEEPING: Final = QueueSettings(settled="keep", lease_ms=LEASE_S * 1000)
LOOK_MAX: Final = 1000
SENDS_MAX: Final = 150  # Each rewind delivers all of them again.
PATIENCE_S: Final = 100.0

_T = TypeVar("_T")


@final
class RewindClient:
    """Sends, receives, settles, rewinds and forks one queue, and reports to a `RewindOracle`."""

    def __init__(self, context: RunContext, queue: str) -> None:
        self.backlog = RewindOracle(queue)
        self._context = context
        self._queue = queue
        self._client = SqsClient(context)
        self._chance: random.Random = context.stream(f"historian-{queue}")
        self._sends = 0
        self._forks = 0

    async def run(self, pause_s: float) -> None:
        await self._once(lambda: self._inside(lambda desk: desk.create(self._queue, KEEPING)), "exist")
        while not self._context.closing:
            await self._context.rest(self._chance.expovariate(1 / pause_s))
            draw = self._chance.random()
            if draw < 0.4 and self._sends < SENDS_MAX:
                await self._send()
            elif draw < 0.9:
                await self._take()
            elif draw < 0.96:
                await self._go_back()
            else:
                await self._fork()
        await self._go_back()
        await self._until_empty()

    async def _send(self) -> None:
        body = body_for(self._chance, f"{self._queue}-{self._sends}")[:2_000]
        self._sends += 1
        try:
            await self._client.send(self._queue, body)
        except (Unanswered, SqsRefusal):
            self.backlog.lost_sight(key_of(body))
            return
        self.backlog.sent(key_of(body))

    async def _take(self) -> int:
        try:
            found = await self._client.receive(self._queue, 10, 0, LEASE_S)
        except (Unanswered, SqsRefusal):
            return -1
        for got in found:
            self.backlog.came(key_of(got.body))
        for got in found:
            if self._chance.random() < 0.9:
                await self._settle(got)
        return len(found)

    async def _settle(self, got: ReceivedMessage) -> None:
        key = key_of(got.body)
        try:
            await self._client.settle(self._queue, got.receipt)
        except Unanswered:
            self.backlog.settle_lost(key)
        except SqsRefusal:  # The lease has ended; there is no other client, so the message is delivered again.
            return
        else:
            self.backlog.settled(key)

    async def _go_back(self) -> None:
        """Rewind to the start, or to a position that a listing of the queue has shown."""
        places = await self._look()
        to: Destination = "start"
        again = set(places)
        if places and self._chance.random() < 0.5:
            first = self._chance.choice(sorted(places))
            to = {0: places[first]}
            again = {key for key, offset in places.items() if offset >= places[first]}
        try:
            await self._surely(lambda: self._inside(lambda desk: desk.rewind(self._queue, to)))
        except SqsRefusal as refusal:  # No message has been delivered there yet.
            known = Code.OFFSET_OUT_OF_RANGE.value
            demand(refusal.code == known, f"{self._queue}: the rewind gave {refusal}")
            return
        self.backlog.went_back(again)

    async def _look(self) -> dict[str, int]:
        """All messages in the log, settled or not, with their positions."""
        page = await self._surely(
            lambda: self._inside(lambda desk: desk.inspection.peek(self._queue, LOOK_MAX, settled=True)),
        )
        places = {key_of(seen.delivery.body.decode()): seen.offset for seen in page.messages}
        self.backlog.seen([key_of(seen.delivery.body.decode()) for seen in page.messages])
        return places

    async def _fork(self) -> None:
        name = f"{self._queue}-fork-{self._forks}"
        self._forks += 1
        await self._once(lambda: self._inside(lambda desk: desk.fork(self._queue, name)), "exist")
        found: dict[str, None] = {}
        quiet = 0
        while quiet < LEASE_S * 2:
            took = await self._surely(partial(self._client.receive, name, 10, 0, LEASE_S))
            for got in took:
                found[key_of(got.body)] = None
                await self._surely(partial(self._client.settle, name, got.receipt))
            if not took:
                quiet += 1
                await asyncio.sleep(1.0)
        self.backlog.forked(name, list(found))
        await self._once(lambda: self._client.call("DeleteQueue", QueueUrl=url_of(name)), "exist")

    async def _until_empty(self) -> None:
        loop = asyncio.get_running_loop()
        ends_s = loop.time() + PATIENCE_S
        while self.backlog.due:
            if await self._take() <= 0:
                await asyncio.sleep(0.5)
            if loop.time() > ends_s:
                raise Violation(f"{self._queue} did not deliver {sorted(self.backlog.due)[:3]} again")

    async def _inside(self, question: Question) -> Any:
        return await ask_inside(self._context.deployment, question)

    async def _once(self, question: Callable[[], Awaitable[object]], done: str) -> None:
        """Repeat the request until it is answered; a repeated one may be refused as done already."""
        try:
            await self._surely(question)
        except SqsRefusal as refusal:
            demand(done in str(refusal).lower(), f"{self._queue}: {refusal}")

    async def _surely(self, question: Callable[[], Awaitable[_T]]) -> _T:
        """Repeat the request until it is answered. It must be idempotent."""
        while True:
            try:
                return await question()
            except Unanswered:
                await asyncio.sleep(self._chance.uniform(0.1, 0.5))

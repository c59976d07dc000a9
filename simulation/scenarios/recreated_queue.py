"""A queue in wings that is created, used, deleted and recreated under the same name, during the whole run.

A message acknowledged in one incarnation is received in that incarnation or deleted with it. No later incarnation
delivers it, even where the reconciler has not removed it yet. While an incarnation exists the queue exists, whatever
the reconciler removes. One actor makes all requests, so it knows the incarnation. A request that it gave up may be
carried out later: it waits so long before each step that this could affect.
"""

from __future__ import annotations

import asyncio
from typing import Any, Final, final

from simulation.checkers.messages import Law
from simulation.checkers.violation import demand
from simulation.scenarios.queue_laws import attributes_of
from simulation.scenarios.run_context import RunContext
from simulation.scenarios.sqs_client import SqsClient, SqsRefusal, Unanswered, url_of

LINGER_S: Final = 45.0  # Longer than a request that was given up can be under way.
MAKE_S: Final = 35.0  # New wings may take so long.
LEASE_S: Final = 4
MISSING: Final = "QueueDoesNotExist"


@final
class RecreatedQueue:
    """The incarnations of one queue name, and the client that creates, uses and deletes them."""

    def __init__(self, context: RunContext, name: str, placements: tuple[str, ...]) -> None:
        self.lives = 0
        self.received = 0
        self._context = context
        self._name = name
        self._placements = placements
        self._chance = context.stream(name)
        self._client = SqsClient(context)
        self._unsure = False  # A send was given up that may still be carried out.

    async def run(self, pause_s: float) -> None:
        """Create and delete one incarnation after another."""
        while not self._context.closing:
            law = Law(self._name, placement=self._chance.choice(self._placements))
            self.lives += 1
            self._context.topics.unsure(self._name)
            await self._surely("CreateQueue", MAKE_S, QueueName=self._name, Attributes=attributes_of(law))
            self._context.topics.created(self._name)
            sent = await self._use(pause_s)
            if self._chance.random() < 0.6:
                await self._empty(sent)
            await self._calm()
            self._context.topics.unsure(self._name)
            await self._delete()
            self._context.topics.deleted(self._name)

    async def _use(self, pause_s: float) -> set[str]:
        """Send, and receive a little, for a while; returns the acknowledged messages that are not settled."""
        chance = self._chance
        sent: set[str] = set()
        for number in range(chance.randint(1, 6)):
            body = f"{self._name}-{self.lives}-{number}"
            try:
                await self._alive(self._client.send(self._name, body))
                sent.add(body)
            except Unanswered:
                self._unsure = True
            if chance.random() < 0.3:
                sent -= await self._receive()
            await self._context.rest(chance.expovariate(1 / pause_s))
        return sent

    async def _receive(self) -> set[str]:
        """Receive; returns the messages of which at least a settle was tried."""
        try:
            found = await self._alive(self._client.receive(self._name, 10, 1, LEASE_S))
            for got in found:
                life = got.body.split("-")[1]
                demand(life == str(self.lives), f"{got.body} was delivered in incarnation {self.lives} of {self._name}")
            self.received += len(found)
            for got in found:
                await self._settle(got.receipt)
        except Unanswered:
            return set()
        return {got.body for got in found}

    async def _settle(self, receipt: str) -> None:
        try:
            await self._client.settle(self._name, receipt)
        except Unanswered:
            return  # A later receipt belongs to another incarnation, and changes nothing.
        except SqsRefusal as refusal:
            demand(MISSING not in refusal.code, f"{self._name} is alive: {refusal}")

    async def _empty(self, sent: set[str]) -> None:
        """Receive until every acknowledged message was delivered."""
        while sent:
            sent -= await self._receive()

    async def _calm(self) -> None:
        """Wait until no request is under way any more."""
        if self._unsure:
            await asyncio.sleep(LINGER_S)
        self._unsure = False

    async def _delete(self) -> None:
        while True:
            try:
                await self._client.call("DeleteQueue", QueueUrl=url_of(self._name))
                return
            except Unanswered:
                await asyncio.sleep(LINGER_S)
            except SqsRefusal as refusal:
                demand(MISSING in refusal.code, f"deleting {self._name} gave {refusal}")
                return

    async def _alive(self, call: Any) -> Any:
        """Make a request to the existing queue: no answer may say that it does not exist."""
        try:
            return await call
        except SqsRefusal as refusal:
            demand(refusal.code in ("OverLimit", "RequestThrottled"), f"{self._name} is alive: {refusal}")
            raise Unanswered from None

    async def _surely(self, action: str, wait_s: float, **members: Any) -> None:
        while True:
            try:
                await self._client.call(action, wait_s, **members)
                return
            except Unanswered:
                await asyncio.sleep(self._chance.uniform(0.05, 0.5))

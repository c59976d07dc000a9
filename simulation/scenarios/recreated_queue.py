"""A queue in wings that is made, used, deleted and made again under the same name, for as long as a run lasts.

What was acknowledged in a life is received in that life or goes with it; nothing of it comes in a later one, wherever
the reconciler has not cleared it away yet. While a life lasts the queue is there, whatever the reconciler clears. One
actor does it all, so it knows which life it is. What it gave up may be carried out a while later: it waits so long
before the next step that this could harm.
"""

from __future__ import annotations

import asyncio
from typing import Any, Final, final

from simulation.checkers.messages import Law
from simulation.checkers.violation import demand
from simulation.scenarios.queue_laws import attributes_of
from simulation.scenarios.run_context import RunContext
from simulation.scenarios.sqs_client import SqsClient, SqsRefusal, Unanswered, url_of

LINGER_S: Final = 45.0  # Longer than anything that was given up is under way.
MAKE_S: Final = 35.0  # Wings that are made may take so long.
LEASE_S: Final = 4
MISSING: Final = "QueueDoesNotExist"


@final
class RecreatedQueue:
    """See the module."""

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
        """Live after life."""
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
        """Send, and receive a little, for a while; what was acknowledged and is not settled."""
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
        """What was received, of which at least the settle was tried."""
        try:
            found = await self._alive(self._client.receive(self._name, 10, 1, LEASE_S))
            for got in found:
                life = got.body.split("-")[1]
                demand(life == str(self.lives), f"{got.body} came in life {self.lives} of {self._name}")
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
            return  # Later it is a receipt of another life, and changes nothing.
        except SqsRefusal as refusal:
            demand(MISSING not in refusal.code, f"{self._name} is alive: {refusal}")

    async def _empty(self, sent: set[str]) -> None:
        """Everything that was acknowledged comes, sooner or later: the run does not end before."""
        while sent:
            sent -= await self._receive()

    async def _calm(self) -> None:
        """Until nothing is on its way any more."""
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
        """The queue is there: nobody may say that it is not."""
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

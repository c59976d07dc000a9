"""Clients that ask, answer and receive answers: a question names its reply queue."""

from __future__ import annotations

import asyncio
import random
from typing import Any, Final, final

from simulation.checkers.answers import AnswerOracle
from simulation.checkers.violation import demand
from simulation.scenarios.producers import body_for, key_of
from simulation.scenarios.run_context import RunContext
from simulation.scenarios.sqs_client import ReceivedMessage, SqsClient, SqsRefusal, Unanswered, url_of

ASKS: Final = "asks"
REPLIES: Final = "replies"
LEASE_S: Final = 3
QUIET_S: Final = 8.0
_LATE: Final = ("InvalidParameterValue", "ReceiptHandleIsInvalid", "MessageNotInflight")


@final
class RequestReplyClients:
    """The clients of one question queue and its reply queue, which report to an `AnswerOracle`."""

    def __init__(self, context: RunContext) -> None:
        self.oracle = AnswerOracle()
        self._context = context
        self._answered_s: dict[str, float] = {}

    async def ask(self, name: str, pause_s: float) -> None:
        chance = self._context.stream(name)
        client = SqsClient(self._context)
        number = 0
        while not self._context.closing:
            await self._context.rest(chance.expovariate(1 / pause_s))
            body = body_for(chance, f"{name}-{number}")[:2_000]
            number += 1
            self.oracle.asking(key_of(body))
            try:
                await _send(client, ASKS, body, {"longhall.reply-to": REPLIES})
            except (Unanswered, SqsRefusal):
                continue
            self.oracle.acknowledged(key_of(body))

    async def answer(self, name: str, pause_s: float, *, until_empty: bool = False) -> None:
        """Answer questions; at times abandon one, or answer it after its lease."""
        chance = self._context.stream(name)
        client = SqsClient(self._context)
        quiet_since_s = _now_s()
        while not self._context.closing or (until_empty and _now_s() - quiet_since_s < QUIET_S):
            if not self._context.closing:
                quiet_since_s = _now_s()
            await asyncio.sleep(chance.expovariate(1 / pause_s))
            asked_s = _now_s()
            try:
                found = await client.receive(ASKS, 5, 0, LEASE_S)
                for got in found:
                    quiet_since_s = _now_s()
                    self.oracle.came(key_of(got.body), asked_s, self._answered_s.get(key_of(got.body)))
                    await self._answer(client, chance, got)
            except Unanswered:
                quiet_since_s = _now_s()

    async def _answer(self, client: SqsClient, chance: random.Random, got: ReceivedMessage) -> None:
        key = key_of(got.body)
        draw = chance.random()
        if draw < 0.1 and not self._context.closing:
            return
        if draw < 0.15:
            await asyncio.sleep(chance.uniform(2.0, 5.0))
        try:
            await _send(client, ASKS, f"{key}:answered", {"longhall.answers": got.receipt})
        except SqsRefusal as refusal:
            demand(refusal.code.startswith(_LATE), f"answering {key} gave {refusal}")
            return
        self._answered_s.setdefault(key, _now_s())

    async def listen(self, name: str, pause_s: float) -> None:
        """Receive answers until none has come for a while after the end of the run."""
        chance = self._context.stream(name)
        client = SqsClient(self._context)
        quiet_since_s = _now_s()
        while not self._context.closing or _now_s() - quiet_since_s < QUIET_S * 2:
            if not self._context.closing:
                quiet_since_s = _now_s()
            await asyncio.sleep(chance.expovariate(1 / pause_s))
            try:
                for got in await client.receive(REPLIES, 10, 0, LEASE_S):
                    quiet_since_s = _now_s()
                    self.oracle.heard(key_of(got.body), got.message_id)
                    await client.settle(REPLIES, got.receipt)
            except Unanswered:
                quiet_since_s = _now_s()
            except SqsRefusal:
                continue  # The settle was late: the same answer is delivered again.


async def _send(client: SqsClient, queue: str, body: str, attributes: dict[str, str]) -> None:
    told: dict[str, Any] = {name: {"DataType": "String", "StringValue": value} for name, value in attributes.items()}
    await client.call("SendMessage", QueueUrl=url_of(queue), MessageBody=body, MessageAttributes=told)


def _now_s() -> float:
    return asyncio.get_running_loop().time()

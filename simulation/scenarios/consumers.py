"""Consumers of queues: they settle, extend, give back, abandon, settle late, and use old receipts."""

from __future__ import annotations

import asyncio
import random
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Any, Final, NamedTuple, final

from longhall.broker.queues.service import QueueService
from simulation.checkers.queues import QueueOracle
from simulation.checkers.violation import demand
from simulation.scenarios.in_process_client import ask_inside
from simulation.scenarios.producers import key_of
from simulation.scenarios.run_context import RunContext
from simulation.scenarios.sqs_client import PATIENCE_S, ReceivedMessage, SqsClient, SqsRefusal, Unanswered, url_of

LEASES_S: Final = (3, 3, 5, 8)
WAITS_S: Final = (0, 1)
OLD_MAX: Final = 50
MOVE_RATES: Final = (2, 20, 500)
# Refusals that a door may answer to a late receipt.
_LATE: Final = ("InvalidParameterValue", "ReceiptHandleIsInvalid", "MessageNotInflight")


class Habits(NamedTuple):
    """The probability of each thing that a consumer does with a message; otherwise it abandons the lease."""

    settle: float = 0.7
    late: float = 0.06
    extend: float = 0.06
    give_back: float = 0.08


GOOD: Final = Habits()
BAD: Final = Habits(settle=0.15, late=0.05, extend=0.05, give_back=0.5)


def _now_s() -> float:
    return asyncio.get_running_loop().time()


@final
class Consumer:
    """One consumer of one queue."""

    def __init__(self, context: RunContext, oracle: QueueOracle, name: str, queue: str, habits: Habits) -> None:
        self.receiver_filter = ""  # The filter of its receives;
        self.colour = ""  # it selects the messages whose key ends with this colour.
        self._context = context
        self._oracle = oracle
        self._queue = queue
        self._habits = habits
        self._chance: random.Random = context.stream(name)
        self._client = SqsClient(context)
        self._old: deque[tuple[ReceivedMessage, int]] = deque(maxlen=OLD_MAX)

    async def run(self, pause_s: float) -> None:
        chance = self._chance
        while not self._context.closing:
            await self._context.rest(chance.expovariate(1 / pause_s))
            try:
                for got, ticket in await self.receive(chance.randint(1, 10), chance.choice(LEASES_S)):
                    await self._handle(got, ticket)
                if self._old and chance.random() < 0.1:
                    await self._use_an_old_receipt(*chance.choice(self._old))
            except Unanswered:
                await asyncio.sleep(chance.uniform(0.05, 0.3))

    async def receive(self, count: int, lease_s: int) -> list[tuple[ReceivedMessage, int]]:
        asked_s = _now_s()
        wait_s = self._chance.choice(WAITS_S)
        assert lease_s >= wait_s + PATIENCE_S
        try:
            answer = await self._client.receive(self._queue, count, wait_s, lease_s, self.receiver_filter)
        except Unanswered:
            self._oracle.unanswered(self._queue, count, _now_s())
            raise
        except SqsRefusal as refusal:
            demand(refusal.code in ("OverLimit", "RequestThrottled"), f"{self._queue}: receiving gave {refusal}")
            return []
        told = [(key_of(got.body), got.message_id, got.attempts) for got in answer]
        tickets = self._oracle.received(self._queue, told, asked_s, _now_s(), lease_s)
        for got in answer:
            key = key_of(got.body)
            self._oracle.opened(key, got.body)
            demand(key.endswith(self.colour), f"{self._queue} delivered {key} to a consumer of {self.colour}")
        found = list(zip(answer, tickets, strict=True))
        self._old.extend(found)
        return found

    async def _handle(self, got: ReceivedMessage, ticket: int) -> None:
        if not got.receipt:
            return  # The queue is at-most-once: the message is settled already.
        chance = self._chance.random()
        for what, share in zip((self.settle, self._late, self._extend, self._give_back), self._habits, strict=True):
            if chance < share:
                await what(got, ticket)
                return
            chance -= share

    async def settle(self, got: ReceivedMessage, ticket: int) -> None:
        key = key_of(got.body)
        self._oracle.settling(key, ticket)
        try:
            await self._client.settle(self._queue, got.receipt)
        except SqsRefusal as refusal:
            demand(refusal.code.startswith(_LATE), f"{self._queue}: settling {key} gave {refusal}")
            return
        self._oracle.settled_now(key, ticket, _now_s())

    async def _late(self, got: ReceivedMessage, ticket: int) -> None:
        """Settle after the lease: accepted if no other consumer has the message, without effect otherwise."""
        await asyncio.sleep(self._chance.uniform(3.0, 9.0))
        await self.settle(got, ticket)

    async def _extend(self, got: ReceivedMessage, ticket: int) -> None:
        await asyncio.sleep(self._chance.uniform(0.0, 1.0))
        await self._change(got, ticket, self._chance.choice((3, 6, 12)))
        await asyncio.sleep(self._chance.uniform(0.0, 2.5))
        if self._chance.random() < 0.8:
            await self.settle(got, ticket)

    async def _give_back(self, got: ReceivedMessage, ticket: int) -> None:
        await self._change(got, ticket, 0)

    async def _use_an_old_receipt(self, got: ReceivedMessage, ticket: int) -> None:
        """Use a superseded receipt: if another consumer has the message, nothing may change."""
        if self._oracle.is_current(key_of(got.body), ticket) or not got.receipt:
            return
        if self._chance.random() < 0.5:
            await self.settle(got, ticket)
        else:
            await self._change(got, ticket, 0)

    async def _change(self, got: ReceivedMessage, ticket: int, seconds: int) -> None:
        key = key_of(got.body)
        law = self._oracle.laws[self._queue]
        hidden_s = seconds or law.wait_s(got.attempts)
        until_s = _now_s() + hidden_s
        was_current = self._oracle.is_current(key, ticket)
        self._oracle.changing(key, ticket, until_s)
        try:
            await self._client.change_lease(self._queue, got.receipt, seconds)
        except SqsRefusal as refusal:
            demand(refusal.code.startswith(_LATE), f"{self._queue}: changing the lease of {key} gave {refusal}")
            return
        retry_s = law.wait_s(got.attempts) if law.lapses else 0.0
        if not seconds and was_current and self._oracle.messages[key].leased_until_s - retry_s <= _now_s():
            return  # The lease had ended: the message was available or waited for its retry, and nothing changed.
        self._oracle.changed(key, ticket, until_s, was_current=was_current)


async def purge_now_and_then(context: RunContext, oracle: QueueOracle, name: str, queue: str, pause_s: float) -> None:
    chance = context.stream(name)
    client = SqsClient(context)
    while not context.closing:
        await context.rest(chance.expovariate(1 / pause_s))
        sure = oracle.purging(queue)
        try:
            await client.purge(queue)
        except Unanswered:
            oracle.purge_lost(queue, _now_s())
        except SqsRefusal as refusal:
            demand(refusal.code == "PurgeQueueInProgress", f"{queue}: purging gave {refusal}")
        else:
            oracle.purged(queue, sure, _now_s())


async def redrive_now_and_then(
    context: RunContext, oracle: QueueOracle, name: str, source: str, targets: list[str], pause_s: float
) -> None:
    """Start moves and cancel some. A started move is listed until it ends, and never fails by itself."""
    chance = context.stream(name)
    client = SqsClient(context)
    while not context.closing:
        await context.rest(chance.expovariate(1 / pause_s))
        oracle.moving(source, _now_s())
        try:
            handle = await client.start_move(source, chance.choice(targets), chance.choice(MOVE_RATES))
            demand(bool(await client.moves(source)), f"{source}: the started move is not listed")
            if chance.random() < 0.2:
                await asyncio.sleep(chance.uniform(0.0, 2.0))
                await client.cancel_move(handle)
        except Unanswered:
            continue
        except SqsRefusal as refusal:
            known = ("InvalidParameterValue", "ResourceNotFoundException")  # A move is running, or has just ended.
            demand(refusal.code.startswith(known), f"{source}: moving gave {refusal}")


async def make_queues(context: RunContext, name: str, pause_s: float) -> None:
    """Make queues, send to them and delete some; what was acknowledged must last."""
    chance = context.stream(name)
    client = SqsClient(context)
    made: list[str] = []
    number = 0
    while not context.closing:
        await context.rest(chance.expovariate(1 / pause_s))
        deletes = bool(made) and chance.random() < 0.5
        queue = made.pop(chance.randrange(len(made))) if deletes else f"{name}-{number}"
        number += 1
        context.topics.unsure(queue)
        try:
            if deletes:
                await client.call("DeleteQueue", QueueUrl=url_of(queue))
                context.topics.deleted(queue)
            else:
                await client.call("CreateQueue", QueueName=queue)
                context.topics.created(queue)
                made.append(queue)
                await client.send(queue, "something", delay_s=chance.choice((None, 5)))
        except Unanswered:
            continue
        except SqsRefusal as refusal:
            demand(deletes and "QueueDoesNotExist" in refusal.code, f"{queue}: creating or deleting gave {refusal}")


async def pause_now_and_then(
    context: RunContext,
    oracle: QueueOracle,
    name: str,
    queue: str,
    pause_s: float,
    switch: Callable[[str, bool], Awaitable[Any]],
) -> None:
    """Pause a queue and resume it. `switch` does both, and raises an error if the outcome is not known."""
    chance = context.stream(name)
    while not context.closing:
        await context.rest(chance.expovariate(1 / pause_s))
        if await _is_done(switch(queue, True)):
            oracle.paused(queue, _now_s())
            await asyncio.sleep(chance.uniform(1.0, 15.0))
            oracle.resuming(queue)
        is_on = False
        while not is_on:
            await asyncio.sleep(0.3)
            is_on = await _is_done(switch(queue, False))


async def switch_inside(context: RunContext, queue: str, paused: bool) -> None:
    """Pause a queue of the hall, or resume it."""

    async def question(desk: QueueService) -> Any:
        await desk.switch(queue, paused)

    await ask_inside(context.deployment, question)


async def _is_done(request: Awaitable[Any]) -> bool:
    try:
        await request
    except (Unanswered, SqsRefusal):
        return False
    return True

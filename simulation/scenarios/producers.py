"""Producers of queues: through the SQS door, through the Kafka door, and in the node's process with delays of days."""

from __future__ import annotations

import asyncio
import random
from collections import deque
from typing import Final

from longhall.broker.queues.service import QueueService
from longhall.client.refusals import Refused, Unreachable
from longhall.queues.messages import Accepted, Outgoing
from longhall.records.batch import build_batch
from longhall.records.record import Record
from simulation.checkers.messages import Message
from simulation.checkers.queues import QueueOracle
from simulation.checkers.sends import Outcome
from simulation.checkers.violation import demand
from simulation.scenarios.in_process_client import ask_inside
from simulation.scenarios.run_context import RunContext
from simulation.scenarios.sqs_client import SqsClient, SqsRefusal, Unanswered

BODY_BYTES: Final = (5, 600)
LARGE_BYTES: Final = (70_000, 120_000)
LARGE_CHANCE: Final = 0.01
AGAIN_S: Final = 40.0
STAMP_LAG: Final = 30  # By how many messages a stamp may be older than the place of its message.
DELAYS_S: Final = (1, 2, 5, 20, 65)


def key_of(body: str) -> str:
    """The key of a message, with which its body begins."""
    return body.partition(":")[0]


def body_for(chance: random.Random, key: str) -> str:
    size = chance.randrange(*LARGE_BYTES) if chance.random() < LARGE_CHANCE else chance.randrange(*BODY_BYTES)
    return f"{key}:" + "x" * size


def _now_s() -> float:
    return asyncio.get_running_loop().time()


async def send_freely(
    context: RunContext, oracle: QueueOracle, name: str, queue: str, pause_s: float, delayed: float
) -> None:
    """Send each message once, alone or in a batch, some with a delay."""
    chance = context.stream(name)
    client = SqsClient(context)
    number = 0
    while not context.closing:
        await context.rest(chance.expovariate(1 / pause_s))
        count = chance.choice((1, 1, 1, 4, 10))
        delay_s = chance.choice(DELAYS_S) if count == 1 and chance.random() < delayed else 0
        bodies = [body_for(chance, f"{name}-{number + at}") for at in range(count)]
        number += count
        messages = [oracle.sending(key_of(body), queue, _now_s(), delay_s) for body in bodies]
        for message, body in zip(messages, bodies, strict=True):
            oracle.marked(message, body)
        try:
            if count == 1:
                stamp = 1 + max(0, number - chance.randrange(STAMP_LAG)) if oracle.laws[queue].stamped else None
                ids = {bodies[0]: await client.send(queue, bodies[0], delay_s=delay_s or None, stamp=stamp)}
            else:
                ids = await client.send_many(queue, bodies)
        except (Unanswered, SqsRefusal) as failure:
            for message in messages:
                (oracle.refused if isinstance(failure, SqsRefusal) else oracle.lost_sight)(message)
            await asyncio.sleep(chance.uniform(0.05, 0.5))
            continue
        for body, message in zip(bodies, messages, strict=True):
            if body in ids:
                oracle.sent(message, ids[body], _now_s())
            else:
                oracle.lost_sight(message)


async def send_in_lines(
    context: RunContext,
    oracle: QueueOracle,
    name: str,
    queue: str,
    groups: int,
    pause_s: float,
    again_s: float = AGAIN_S,
) -> None:
    """Send numbers to a few groups, each until it is acknowledged, and sometimes an earlier one again.

    The repeated one is at most `again_s` old, settled or not: it must not be delivered a second time.
    """
    chance = context.stream(name)
    client = SqsClient(context)
    sent: deque[tuple[Message, str]] = deque()
    numbers = [0] * groups
    while not context.closing:
        await context.rest(chance.expovariate(1 / pause_s))
        while sent and sent[0][0].asked_s < _now_s() - again_s:
            sent.popleft()
        if sent and chance.random() < 0.15:
            message, body = chance.choice(sent)
        else:
            group = chance.randrange(groups)
            body = body_for(chance, f"{name}/{group}/{numbers[group]}")[:2_000]
            message = oracle.sending(key_of(body), queue, _now_s(), 0.0, f"{name}.{group}", numbers[group])
            numbers[group] += 1
            sent.append((message, body))
        await _until_sent(client, oracle, message, body, chance)


async def _until_sent(
    client: SqsClient, oracle: QueueOracle, message: Message, body: str, chance: random.Random
) -> None:
    while True:
        try:
            oracle.sent(message, await client.send(message.home, body, message.group), _now_s())
            return
        except Unanswered:
            oracle.lost_sight(message)
        except SqsRefusal as refusal:
            demand(refusal.code == "RequestThrottled", f"{message} was refused: {refusal}")
        await asyncio.sleep(chance.uniform(0.05, 0.5))


async def send_by_kafka(context: RunContext, oracle: QueueOracle, name: str, queue: str, pause_s: float) -> None:
    """Send batches of a Kafka producer to the queue's topic; some in transactions, some aborted."""
    chance = context.stream(name)
    hall = await context.connect(name)
    number = 0
    while not context.closing:
        await context.rest(chance.expovariate(1 / pause_s))
        messages = []
        records = []
        for _ in range(chance.choice((1, 1, 3, 8))):
            body = body_for(chance, f"{name}-{number}")
            number += 1
            messages.append(oracle.sending(key_of(body), queue, _now_s()))
            records.append(Record(-1, context.now_ms(), None, body.encode()))
        try:
            await hall.records.produce(queue, 0, build_batch(records, compression=chance.randrange(5)), create=False)
        except (Unreachable, Refused):
            for message in messages:
                oracle.lost_sight(message)
            await asyncio.sleep(chance.uniform(0.05, 0.5))
            continue
        for message in messages:
            oracle.sent(message, "", _now_s())


async def send_in_transactions(context: RunContext, oracle: QueueOracle, name: str, queue: str, pause_s: float) -> None:
    """Send in transactions: committed messages are delivered, aborted ones never."""
    chance = context.stream(name)
    hall = await context.connect(name)
    number = 0
    while not context.closing:
        await context.rest(chance.expovariate(1 / pause_s))
        keys = [f"{name}-{number + at}" for at in range(chance.randint(1, 3))]
        number += len(keys)
        records = [Record(-1, context.now_ms(), None, body_for(chance, key).encode()) for key in keys]
        messages = [oracle.sending(key, queue, _now_s()) for key in keys]
        commits = chance.random() < 0.6
        try:
            who = await hall.transactions.identify(name, timeout_ms=10_000)
            await hall.transactions.add_partitions(name, who, [(queue, 0)])
            batch = build_batch(
                records, producer_id=who.producer_id, producer_epoch=who.epoch, base_sequence=0, transactional=True
            )
            await hall.records.produce(queue, 0, batch, transactional_id=name, create=False)
            if not commits:
                for message in messages:
                    oracle.refused(message)
            await hall.transactions.end(name, who, commit=commits, rising=False)
        except (Unreachable, Refused):
            for message in messages:
                oracle.lost_sight(message)
            await asyncio.sleep(chance.uniform(0.05, 0.5))
            continue
        if commits:
            for message in messages:
                oracle.sent(message, "", _now_s())


async def send_far_ahead(
    context: RunContext, oracle: QueueOracle, name: str, queue: str, pause_s: float, delay_s_max: float
) -> None:
    """Send from inside the process, because no door has such delays: milliseconds to days."""
    chance = context.stream(name)
    number = 0
    while not context.closing:
        await context.rest(chance.expovariate(1 / pause_s))
        delay_ms = int(chance.choice((50, 1_000, 60_000, 3_600_000, delay_s_max * 1000)) * chance.uniform(0.1, 1.0))
        body = body_for(chance, f"{name}-{number}")
        number += 1
        message = oracle.sending(key_of(body), queue, _now_s(), delay_ms / 1000)

        async def question(desk: QueueService, body: str = body, delay_ms: int = delay_ms) -> list[Accepted]:
            return await desk.send(queue, [Outgoing(body=body.encode(), delay_ms=delay_ms)])

        try:
            (accepted,) = await ask_inside(context.deployment, question)
        except (Unanswered, SqsRefusal):
            oracle.lost_sight(message)
            await asyncio.sleep(chance.uniform(0.05, 0.5))
            continue
        if accepted.code is None:
            oracle.sent(message, accepted.message_id, _now_s())
        elif message.outcome is Outcome.OPEN:
            oracle.refused(message)

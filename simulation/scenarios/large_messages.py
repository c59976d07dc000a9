"""Producers of what no door offers yet: priorities, and messages above the size limit, whole or in parts.

A message that was never finished must never be delivered.
"""

from __future__ import annotations

import asyncio
from typing import Final

from longhall.broker.queues.service import QueueService
from longhall.queues.messages import Accepted, Outgoing
from simulation.checkers.queues import QueueOracle
from simulation.scenarios.in_process_client import ask_inside
from simulation.scenarios.producers import body_for, key_of
from simulation.scenarios.run_context import RunContext
from simulation.scenarios.sqs_client import SqsRefusal, Unanswered

LIMIT_BYTES: Final = 4096  # The limit of a message that is stored as one record.
WHOLE_BYTES_MAX: Final = 1 << 20
LARGE_BYTES: Final = (5_000, 60_000)
PART_BYTES: Final = 7_000
PRIORITIES: Final = 3


async def send_parcels(context: RunContext, oracle: QueueOracle, name: str, queue: str, pause_s: float) -> None:
    """Send small and large messages in turn, with all priorities; some uploads in parts are cancelled or abandoned."""
    chance = context.stream(name)
    number = 0
    while not context.closing:
        await context.rest(chance.expovariate(1 / pause_s))
        body = body_for(chance, f"{name}-{number}")[: LIMIT_BYTES // 2]
        number += 1
        way = chance.choice(("small", "small", "large", "parts", "parts", "left"))
        if way != "small":
            body += "y" * chance.randrange(*LARGE_BYTES)
        priority = chance.randrange(PRIORITIES)
        now_s = asyncio.get_running_loop().time()
        message = oracle.sending(key_of(body), queue, now_s)
        oracle.marked(message, body)
        accepted: Accepted | None
        try:
            if way in ("small", "large"):
                accepted = await _send(context, queue, body, priority)
            else:
                if way == "left":
                    oracle.refused(message)
                accepted = await _send_in_parts(context, queue, body, priority, finishes=way == "parts")
        except (Unanswered, SqsRefusal):
            oracle.lost_sight(message)
            await asyncio.sleep(chance.uniform(0.05, 0.5))
            continue
        if accepted is None:
            continue
        if accepted.code is None:
            oracle.sent(message, accepted.message_id, asyncio.get_running_loop().time())
        else:
            oracle.refused(message)


async def _send(context: RunContext, queue: str, body: str, priority: int) -> Accepted:
    async def question(desk: QueueService) -> list[Accepted]:
        return await desk.send(queue, [Outgoing(body=body.encode(), priority=priority)])

    (accepted,) = await ask_inside(context.deployment, question)
    assert isinstance(accepted, Accepted)
    return accepted


async def _send_in_parts(
    context: RunContext, queue: str, body: str, priority: int, *, finishes: bool
) -> Accepted | None:
    """Send each part as a request of its own, so that the node may die between any two."""

    async def begin(desk: QueueService) -> str:
        return await desk.begin(queue)

    upload_id = await ask_inside(context.deployment, begin)
    parts = [body[at : at + PART_BYTES] for at in range(0, len(body), PART_BYTES)]
    for number, part in enumerate(parts[: None if finishes else -1]):

        async def add(desk: QueueService, number: int = number, part: str = part) -> None:
            await desk.add(queue, upload_id, number, part.encode())

        await ask_inside(context.deployment, add)
    if not finishes:
        return None

    async def finish(desk: QueueService) -> Accepted:
        return await desk.finish(queue, upload_id, len(parts), Outgoing(body=b"", priority=priority))

    accepted = await ask_inside(context.deployment, finish)
    assert isinstance(accepted, Accepted)
    return accepted

"""Clients that store something other than messages: offsets of groups, and topics."""

from __future__ import annotations

import asyncio

from longhall.client.groups import Committed
from longhall.client.refusals import Refused, Unreachable
from simulation.checkers.topic_state import OffsetOracle
from simulation.scenarios.run_context import RunContext

UNKNOWN_TOPIC = 3
TOPIC_EXISTS = 36


async def commit_offsets(context: RunContext, name: str, oracle: OffsetOracle, pause_s: float) -> None:
    """Commit increasing offsets, and read the group's offset now and then."""
    chance = context.stream(name)
    hall = await context.connect(name)
    offset = 0
    while not context.closing:
        await asyncio.sleep(chance.expovariate(1 / pause_s))
        before = oracle.acknowledged
        try:
            if chance.random() < 0.3:
                found = await hall.groups.offsets(oracle.group, [oracle.place])
                oracle.found(found[oracle.place].offset if oracle.place in found else -1, before)
            else:
                offset += chance.randint(1, 10)
                oracle.committing(offset)
                await hall.groups.commit(oracle.group, {oracle.place: Committed(offset, metadata=f"at {offset}")})
                oracle.committed(offset)
        except (Refused, Unreachable):
            await asyncio.sleep(chance.uniform(0.05, 0.5))


async def make_topics(context: RunContext, name: str, pause_s: float) -> None:
    """Create topics and delete some of them; what was acknowledged must last."""
    chance = context.stream(name)
    hall = await context.connect(name)
    made: list[str] = []
    number = 0
    while not context.closing:
        await asyncio.sleep(chance.expovariate(1 / pause_s))
        deletes = made and chance.random() < 0.5
        topic = made.pop(chance.randrange(len(made))) if deletes else f"{name}-{number}"
        number += 1
        context.topics.unsure(topic)
        try:
            if deletes:
                await hall.topics.delete(topic)
                context.topics.deleted(topic)
            else:
                await hall.topics.create(topic, partitions=chance.randint(1, 4))
                context.topics.created(topic)
                made.append(topic)
        except Unreachable:
            continue
        except Refused as refusal:  # A repeated request finds that the first one was carried out.
            if deletes and refusal.error_code == UNKNOWN_TOPIC:
                context.topics.deleted(topic)
            elif not deletes and refusal.error_code == TOPIC_EXISTS:
                context.topics.created(topic)
                made.append(topic)

"""Clients of queues that grow and shrink: a producer that sends by keys, and a count of the parts."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from itertools import pairwise
from typing import Final, final

from longhall.broker.queues.service import QueueService
from longhall.client.refusals import Refused, Unreachable
from longhall.records.batch import build_batch
from longhall.records.partitioner import murmur2
from longhall.records.record import Record
from simulation.checkers.queues import QueueOracle
from simulation.checkers.violation import demand
from simulation.scenarios.consumers import Habits
from simulation.scenarios.in_process_client import ask_inside
from simulation.scenarios.producers import body_for, key_of
from simulation.scenarios.run_context import RunContext
from simulation.scenarios.sqs_client import SqsRefusal, Unanswered

KEYS: Final = 4
ASKS_CHANCE: Final = 0.1  # How often a producer refreshes its metadata; Kafka producers do so every five minutes.
COUNT_S: Final = 0.7
# With other habits the queue would never be drained.
DILIGENT: Final = Habits(settle=0.92, late=0.02, extend=0.03, give_back=0.03)


async def send_by_keys(context: RunContext, oracle: QueueOracle, name: str, queue: str, pause_s: float) -> None:
    """Send as a Kafka producer that chooses the partition by a key and the partition count that it knows.

    The outcome of a batch without an answer is unknown, so its key is not used again.
    """
    chance = context.stream(name)
    hall = await context.connect(name)
    now_s = asyncio.get_running_loop().time
    known = 1
    numbers = [0] * KEYS
    lives = [0] * KEYS
    while not context.closing:
        await context.rest(chance.expovariate(1 / pause_s))
        at = chance.randrange(KEYS)
        key = f"{name}.{at}.{lives[at]}"
        messages = []
        records = []
        for _ in range(chance.choice((1, 1, 3))):
            body = body_for(chance, f"{name}/{at}/{lives[at]}/{numbers[at]}")[:2_000]
            messages.append(oracle.sending(key_of(body), queue, now_s(), 0.0, key, numbers[at]))
            records.append(Record(-1, context.now_ms(), key.encode(), body.encode()))
            numbers[at] += 1
        try:
            if chance.random() < ASKS_CHANCE:
                known = len((await hall.topics.describe(queue)).partitions)
            part = (murmur2(key.encode()) & 0x7FFFFFFF) % known
            await hall.records.produce(queue, part, build_batch(records), create=False)
        except (Unreachable, Refused):
            for message in messages:
                oracle.lost_sight(message)
            lives[at] += 1
            numbers[at] = 0
            await asyncio.sleep(chance.uniform(0.05, 0.5))
            continue
        for message in messages:
            oracle.sent(message, "", now_s())


@final
class Sizes:
    """The part counts of queues over time, sampled at intervals. `queues` has the counts at the beginning."""

    def __init__(self, context: RunContext, queues: Mapping[str, int]) -> None:
        self.seen: dict[str, list[int]] = {queue: [count] for queue, count in queues.items()}
        self._context = context
        context.act(self._count())

    async def _count(self) -> None:
        async def question(desk: QueueService) -> dict[str, int]:
            """From the catalogue: the leader of the hall does not measure queues of other groups by itself."""
            topics = [desk._hall.topic(queue) for queue in self.seen]
            return {topic.name: topic.open_count for topic in topics if topic is not None}

        while not self._context.closing:
            await self._context.rest(COUNT_S)
            try:
                counts = await ask_inside(self._context.deployment, question)
            except (Unanswered, SqsRefusal):
                continue
            for queue, parts in counts.items():
                if parts != self.seen[queue][-1]:
                    self.seen[queue].append(parts)

    def check(self, queue: str, *, shrinks: bool) -> None:
        """Check that the queue has grown, and shrunk if it could; a shortened run may not have come so far."""
        if self._context.simulation.share < 1:
            return
        seen = self.seen[queue]
        demand(max(seen) > seen[0], f"{queue} has never grown")
        fell = any(now < before for before, now in pairwise(seen))
        demand(fell or not shrinks, f"{queue} has never shrunk: {seen}")

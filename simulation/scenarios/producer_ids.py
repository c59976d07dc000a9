"""Kafka producers that only ask for their id, at every broker of a cluster: no id may be given out twice.

Blocks have a few ids here, so that processes reserve one after the other while leaders die.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from longhall.broker import catalogue
from longhall.client.refusals import Refused, Unreachable
from longhall.doors.kafka.wire.messages.transactions import InitProducerIdRequest, InitProducerIdResponse
from simulation.bug import replaced
from simulation.checkers.violation import demand
from simulation.scenarios.run_context import RunContext

BLOCK: Final = 2


@contextmanager
def small_blocks() -> Iterator[None]:
    """Blocks of few ids. Compiled code keeps its own size."""
    with replaced(catalogue, "PRODUCER_ID_BLOCK", BLOCK):
        yield


async def take_producer_ids(context: RunContext, name: str, given: set[int], pause_s: float) -> None:
    """Ask one broker after the other, processes of wings too; `given` has all ids that any actor of the run got."""
    chance = context.stream(name)
    hall = await context.connect(name)
    while not context.closing:
        await context.rest(chance.expovariate(1 / pause_s))
        try:
            await hall.metadata([])
            node = chance.choice(sorted(hall.brokers))
            answer = await hall.ask(node, InitProducerIdRequest(transactional_id=None), InitProducerIdResponse)
        except (Refused, Unreachable):
            continue
        if answer.error_code:
            continue
        demand(answer.producer_id not in given, f"the producer id {answer.producer_id} was given out twice")
        given.add(answer.producer_id)

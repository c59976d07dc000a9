"""Zombie producers: they write with a fenced epoch, or into partitions that their transaction never added.

All their sends are marked as refused beforehand: if a node accepts one, or a reader ever sees it, that is a violation.
A batch of a transaction that never ends would block readers of committed transactions, who would notice.
"""

from __future__ import annotations

from longhall.client.hall import Hall
from longhall.client.refusals import Refused, Unreachable
from longhall.client.transactions import Identity
from longhall.records.batch import build_batch
from simulation.checkers.sends import Place
from simulation.checkers.violation import Violation
from simulation.scenarios.run_context import RunContext
from simulation.scenarios.writers import records_of


async def write_as_zombie(context: RunContext, name: str, places: list[Place], pause_s: float) -> None:
    """Start a new epoch repeatedly, and go on writing with the one before."""
    chance = context.stream(name)
    hall = await context.connect(name)
    number = 0
    while not context.closing:
        await context.rest(chance.expovariate(1 / pause_s))
        try:
            before = await hall.transactions.identify(name, timeout_ms=10_000)
            place = chance.choice(places)
            await hall.transactions.add_partitions(name, before, [(place.topic, place.partition)])
            now = await hall.transactions.identify(name, timeout_ms=10_000)
        except (Refused, Unreachable):
            continue
        for who, what in ((before, "with a fenced epoch"), (now, "into a partition that was not added")):
            number += 1
            try:
                await _write(context, hall, name, who, place, number)
            except (Refused, Unreachable):
                continue
            raise Violation(f"{name} wrote to {place} {what}, and it was accepted")


async def _write(context: RunContext, hall: Hall, name: str, who: Identity, place: Place, number: int) -> None:
    send = context.log.sending(place, name, -1, [f"{name}/{number}/0:zombie".encode()])
    context.log.refused(send)
    batch = build_batch(
        records_of(context, send),
        producer_id=who.producer_id,
        producer_epoch=who.epoch,
        base_sequence=0,
        transactional=True,
    )
    await hall.records.produce(place.topic, place.partition, batch, transactional_id=name, create=False)

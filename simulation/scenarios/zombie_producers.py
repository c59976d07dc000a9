"""Those who write under a name that is somebody else's by now, or into partitions that their transaction never named.

Everything they send is marked as refused before it is sent: if a node takes it, or anybody ever reads it, that is a
violation. A batch that hangs open for ever would stop readers of what is committed, and be found by them.
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
    """Begin under a new epoch, again and again, and go on writing under the one before."""
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
        for who, what in ((before, "under an epoch that is over"), (now, "into a partition that was not added")):
            number += 1
            try:
                await _write(context, hall, name, who, place, number)
            except (Refused, Unreachable):
                continue
            raise Violation(f"{name} wrote to {place} {what}, and it was taken")


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

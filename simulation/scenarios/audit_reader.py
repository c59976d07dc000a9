"""The last reader of an audit topic: it compares the topic with what clients saw."""

from __future__ import annotations

from simulation.checkers.audits import audit
from simulation.checkers.messages import Law
from simulation.checkers.sends import Place
from simulation.scenarios.final_check import HEALED_S
from simulation.scenarios.queue_run import QueueRun
from simulation.scenarios.readers import read_all


async def compare_audit(run: QueueRun, law: Law) -> None:
    """Read the whole audit topic of a queue as a Kafka client, and compare it."""
    hall = await run.context.connect("auditor", patience_ms=30_000)
    place = Place(f"{law.name}.deliveries", 0)
    _, records, _ = await read_all(hall, place, stable=False, seconds=HEALED_S)
    audit(run.oracle, law.name, [record.value or b"" for record in records])
    hall.close()

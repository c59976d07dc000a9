"""Planted bugs of AMQP: of publishing to several queues, and of transactions."""

from __future__ import annotations

from typing import Any, Final

from longhall.broker.queues.sending import publish, transaction
from longhall.broker.queues.sending.planned_sends import PlannedSends
from longhall.broker.queues.write import together
from longhall.broker.waiting import committed
from longhall.service import exchanges
from simulation.bug import Bug

_Replacements = list[tuple[Any, str, Any]]


def _confirm_before_commit() -> _Replacements:
    def wait_for_nobody(self: Any, hall: Any, waits: Any, pending: Any) -> None:
        pending.committed(0)

    return [(publish._Joined, "__init__", wait_for_nobody)]


def _commit_in_two_steps() -> _Replacements:
    async def commit(hall: Any, stager: Any, sends: Any, ends: Any, consumer: str, carrier: Any = None) -> None:
        steps = [transaction._End(hall, hall.running_queue(one.queue), one.receipts, one.how) for one in ends]
        planned = PlannedSends(hall, stager, sends, carrier)
        await planned.make_room()
        planned.plan()
        with together(hall):
            planned.write()
        await planned.acknowledged()
        for step in steps:
            await step.look_up()
            step.decide()
            with together(hall):
                step.write(consumer)
            await committed(hall, step.queue.shard)

    return [(exchanges, "commit_transaction", commit)]


AMQP_BUGS: Final[dict[str, Bug]] = {
    "confirm-before-commit": Bug(
        "A message is confirmed before its queues have it durably.", "amqp", 4, _confirm_before_commit
    ),
    "commit-in-two-steps": Bug("A transaction publishes first and acknowledges then.", "amqp", 6, _commit_in_two_steps),
}

"""Planted bugs of the AMQP door: of push, of publishing to several queues, and of transactions."""

from __future__ import annotations

from typing import Any, Final

from longhall.broker.queues.consumers import queue_consumers
from longhall.broker.queues.consumers.queue_consumers import QueueConsumers
from longhall.broker.queues.consumers.registry import ConsumerRegistry
from longhall.broker.queues.sending import publish, transaction
from longhall.broker.queues.sending.planned_sends import PlannedSends
from longhall.broker.queues.write import together
from longhall.broker.waiting import committed
from longhall.service import exchanges
from simulation.bug import Bug

_Replacements = list[tuple[Any, str, Any]]


def _push_before_commit() -> _Replacements:
    async def lease(self: Any, wanted: int) -> Any:
        pending = queue_consumers.receive(
            self._hall, self.queue, wanted, queue_consumers.WAIT_MS, queue_consumers.SESSION_LEASE_MS
        )
        pending.when_abandoned(self._return)
        self._waiting = pending
        try:
            return pending.reply if pending.known else await pending
        finally:
            self._waiting = None

    return [(QueueConsumers, "_lease", lease)]


def _confirm_before_commit() -> _Replacements:
    def wait_for_nobody(self: Any, hall: Any, waits: Any, pending: Any) -> None:
        pending.committed(0)

    return [(publish._Joined, "__init__", wait_for_nobody)]


def _commit_in_two_steps() -> _Replacements:
    async def commit(hall: Any, stager: Any, sends: Any, ends: Any, consumer: str) -> None:
        steps = [transaction._End(hall, hall.running_queue(one.queue), one.receipts, one.how) for one in ends]
        planned = PlannedSends(hall, stager, sends)
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


def _keep_what_a_connection_held() -> _Replacements:
    good: Any = ConsumerRegistry.close

    def close(self: Any, session_id: str, *, keep_queues: bool = False) -> None:
        session = self.sessions.get(session_id)
        if session is not None:
            session.held.clear()
        good(self, session_id, keep_queues=keep_queues)

    return [(ConsumerRegistry, "close", close)]


AMQP_BUGS: Final[dict[str, Bug]] = {
    "push-before-commit": Bug(
        "A consumer is pushed a message whose lease is not durable yet.", "amqp", 6, _push_before_commit
    ),
    "confirm-before-commit": Bug(
        "A message is confirmed before its queues have it durably.", "amqp", 4, _confirm_before_commit
    ),
    "commit-in-two-steps": Bug("A transaction publishes first and acknowledges then.", "amqp", 6, _commit_in_two_steps),
    "keep-what-a-connection-held": Bug(
        "What a client held when its connection broke stays leased.", "amqp", 2, _keep_what_a_connection_held
    ),
}

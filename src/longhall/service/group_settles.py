"""Settles with sends over several replication groups, at the leader of the hall.

A request whose messages and topics are in one group goes there (`placed_queues`). What is left comes here: messages of
several groups, and sends to topics of other groups than the messages. The groups hold the messages, and the hall
decides (`broker/group_steps.py`).
"""

from __future__ import annotations

from typing import final

from longhall.broker.feature_gates import may_settle_in_groups
from longhall.broker.group_steps import GroupSteps
from longhall.broker.hall import Hall
from longhall.broker.queues.running_queue import owner_of
from longhall.broker.queues.sending.planned_sends import PlannedSends, repeated
from longhall.broker.queues.sending.transaction import PlannedTransaction
from longhall.broker.queues.service import QueueService
from longhall.cluster.rpc.operation import Caller
from longhall.errors import Code, LonghallError
from longhall.queues.messages import Accepted, WriteBack
from longhall.service.local import LocalBroker
from longhall.service.queue_operations import SettleWithSends


@final
class GroupSettles:
    """Carries out settles with sends over several groups."""

    def __init__(self, hall: Hall, queues: QueueService, steps: GroupSteps) -> None:
        self._hall = hall
        self._queues = queues
        self._steps = steps

    def register(self, broker: LocalBroker) -> None:
        """Carry out this operation in this process."""
        broker.also(SettleWithSends, self._settle)

    async def _settle(self, op: SettleWithSends, caller: Caller) -> list[list[Accepted]]:
        hall, queues = self._hall, self._queues
        queue = hall.running_queue(op.queue)
        if queue is None or hall.options.wing or not (queue.settings.wings or _go_apart(hall, op.sends)):
            return await queues.settle_with_sends(op.queue, op.receipts, op.sends, caller.identity)
        if not may_settle_in_groups(hall):
            raise LonghallError(
                Code.INVALID_REQUEST,
                "the messages are in several replication groups: settle those of each receive by themselves, or raise "
                "the feature level",
            )
        sends = PlannedSends(hall, queues.stager, op.sends, queues.outbox.carrier, is_step=True)
        step = PlannedTransaction(hall, sends, [], caller.identity)
        await step.make_ready()
        if not await self._steps.commit({op.queue: op.receipts}, step, sends.batches):
            return repeated(op.sends)
        await step.finish()
        return step.answers


def _go_apart(hall: Hall, sends: list[WriteBack]) -> bool:
    """True if a message is for a topic, a part of which is in another group. Queues there have the outbox."""
    routes = (hall.shown(send.topic) for send in sends if send.topic)
    return any(partition.elsewhere for route in routes if route and owner_of(route[0]) is None for partition in route)

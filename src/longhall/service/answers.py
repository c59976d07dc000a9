"""Answers to messages: their reply queue is known only where the message is stored, so its permission is checked there.

A client that names any queue as the reply queue of a message of its own, and then answers it, would write everywhere.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import final

from longhall.broker.queues.service import QueueService
from longhall.cluster.rpc.operation import Caller
from longhall.queues.messages import Accepted
from longhall.service.local import LocalBroker
from longhall.service.queue_operations import AnswerMessage

PermitWrite = Callable[[Caller, str], None]


@final
class AnswerService:
    """Carries out `AnswerMessage` in the place of the table of queues. `permit_write` raises if a caller may not write
    to a queue.
    """

    def __init__(self, queues: QueueService, permit_write: PermitWrite) -> None:
        self._queues = queues
        self._permit_write = permit_write

    def register(self, broker: LocalBroker) -> None:
        """Carry out the operation in this process."""
        broker.also(AnswerMessage, self._answer)

    async def _answer(self, op: AnswerMessage, caller: Caller) -> Accepted:
        permit = partial(self._permit_write, caller)
        return await self._queues.answer(op.queue, op.receipt, op.message, caller.identity, permit)

"""Calls of the outbox: where a queue is, and messages for it. Fulfils `OutboxCarrier`.

The hall knows all queues, so every call goes to the hall's leader; from there to the groups that store the queue.
"""

from __future__ import annotations

from typing import Protocol, TypeVar, final

from longhall.broker.pending import Pending
from longhall.cluster.rpc.operation import Operation
from longhall.queues.outbox_events import OutboxBatch, QueueLocation
from longhall.service.queue_operations import CheckRoom, DeliverOutbox, LocateQueue

R = TypeVar("R")


class AskHall(Protocol):
    """`dispatch` of the hall's router, or `call` of a wing's client of the hall."""

    def __call__(self, operation: Operation[R], /) -> Pending[R]: ...


@final
class OutboxCalls:
    """The way of a group's outbox to the hall."""

    def __init__(self, ask: AskHall) -> None:
        self._ask = ask

    async def locate(self, name: str) -> QueueLocation:
        return await self._ask(LocateQueue(name))

    async def deliver(self, name: str, topic_id: bytes, batch: OutboxBatch) -> int:
        return await self._ask(DeliverOutbox(name, topic_id, batch))

    async def check_room(self, name: str, count: int, size_bytes: int) -> None:
        await self._ask(CheckRoom(name, count, size_bytes))

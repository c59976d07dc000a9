"""The deletion of queues that end by themselves, in a cluster: with their last consumer, connection or time.

The catalogue of the hall is authoritative, so a queue is deleted there first. The leader of the hall deletes it at
once; a group that stores it asks the leader of the hall, which makes sure that no other group has a consumer of it.
"""

from __future__ import annotations

from typing import final

from longhall.broker.queues.running_queue import RunningQueue
from longhall.errors import Code, LonghallError
from longhall.service.exchange_operations import RetireQueue
from longhall.service.outbox_calls import AskHall
from longhall.service.queue_operations import DeleteQueue
from longhall.service.router import Router


@final
class HallQueueEnds:
    """Deletes queues at the leader of the hall, and in the groups that store them."""

    def __init__(self, router: Router) -> None:
        self._router = router

    async def end(self, queue: RunningQueue) -> None:
        try:
            await self._router.dispatch(DeleteQueue(queue.entry.name))
        except LonghallError as error:
            if error.code is not Code.UNKNOWN_QUEUE:
                raise


@final
class GroupQueueEnds:
    """Asks the leader of the hall to delete queues that this group stores."""

    def __init__(self, ask: AskHall) -> None:
        self._ask = ask

    async def end(self, queue: RunningQueue) -> None:
        try:
            await self._ask(RetireQueue(queue.entry.name, queue.entry.topic_id))
        except LonghallError as error:
            if error.code is not Code.UNKNOWN_QUEUE:
                raise

"""The furnisher: gives a replication group a topic with its queues, as the catalogue of the main hall has them.

A group that was away may still have an earlier topic or queue of the same name. It is removed first, and only if this
process has confirmed that it leads: a deposed leader may not know what was just created.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Protocol, TypeVar, final

from longhall.broker.feature_gates import GROUP_QUEUES_LEVEL
from longhall.broker.hall import Hall
from longhall.broker.pending import Pending
from longhall.broker.waiting import committed
from longhall.cluster.placement.topic_operations import (
    ApplyTopic,
    ListPlacedQueues,
    ListTopics,
    RemovePlacedQueue,
    RemoveTopic,
    TopicSpec,
)
from longhall.cluster.rpc.operation import Operation
from longhall.errors import Code, LonghallError
from longhall.names import CATALOGUE_SHARD

R = TypeVar("R")


class GroupCalls(Protocol):
    """The other groups, as the furnisher uses them."""

    @property
    def leads(self) -> bool:
        """True if this process leads the hall."""

    def call(self, number: int, operation: Operation[R]) -> Pending[R]:
        """Have the leader of a group carry out an operation."""


@final
class GroupFurnisher:
    """Applies topics to groups. Every step can be repeated."""

    def __init__(self, hall: Hall, groups: GroupCalls, confirm: Callable[[], Awaitable[None]]) -> None:
        self._hall = hall
        self._groups = groups
        self._confirm = confirm

    async def apply(self, number: int, spec: TopicSpec) -> None:
        """Have a group store a topic like this."""
        try:
            await self._groups.call(number, ApplyTopic(spec))
        except LonghallError as error:
            if error.code not in (Code.TOPIC_EXISTS, Code.QUEUE_EXISTS):
                raise
            await self._make_way(number, spec)
            await self._groups.call(number, ApplyTopic(spec))

    async def list_queues(self, number: int) -> list[tuple[str, bytes]]:
        """The queues over topics that a group has. A group of the version before has none, and is not asked."""
        if self._hall.replica is not None and self._hall.feature_level < GROUP_QUEUES_LEVEL:
            return []
        return await self._groups.call(number, ListPlacedQueues())

    async def _make_way(self, number: int, spec: TopicSpec) -> None:
        """Remove earlier topics and queues of the same names from a group: they were deleted here while it was away."""
        inventory = await self._groups.call(number, ListTopics())
        queues = await self.list_queues(number)
        names = {spec.name, *(queue.name for queue in spec.over)}
        catalogue = self._hall.catalogue
        gone_queues = [row for row in queues if row[0] in names and row[1] not in catalogue.queues.by_id]
        gone_topics = [row[:2] for row in inventory if row[0] in names and row[1] not in catalogue.by_id]
        await committed(self._hall, self._hall.shards[CATALOGUE_SHARD])  # A deletion counts once it is committed.
        await self._confirm()
        if not self._groups.leads or spec.topic_id not in catalogue.by_id:
            return
        for name, queue_id in gone_queues:
            await self._groups.call(number, RemovePlacedQueue(name, queue_id))
        for name, topic_id in gone_topics:
            await self._groups.call(number, RemoveTopic(name, topic_id))

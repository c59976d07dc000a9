"""The topics that are placed in a replication group, at the group's own leader: apply, list, remove.

Changes run one at a time, so that two versions of one topic never mix.
"""

from __future__ import annotations

import asyncio
from typing import final

from longhall.broker.catalogue import Topic
from longhall.broker.hall import Hall
from longhall.broker.queues.service import QueueService
from longhall.broker.queues.upkeep import queue_administration
from longhall.broker.topic_administration import add_partitions, configure_topic, create_topic, delete_topic
from longhall.cluster.placement.topic_operations import TopicSpec, fingerprint
from longhall.errors import Code, LonghallError
from longhall.queues.settings import QueueSettings


@final
class GroupTopics:
    """The part of the cluster's catalogue that this group stores."""

    def __init__(self, hall: Hall, queues: QueueService) -> None:
        self._hall = hall
        self._queues = queues
        self._changing = asyncio.Lock()

    def list(self) -> list[tuple[str, bytes, int]]:
        """Names, ids and fingerprints of the topics that were placed here, without internal topics of the group."""
        return [
            (name, topic.topic_id, fingerprint(self._spec(name, topic)))
            for name, topic in self._hall.catalogue.topics.items()
            if topic.options.wings
        ]

    def check_incarnation(self, name: str, topic_id: bytes) -> None:
        """Raises UNKNOWN_QUEUE if the topic of this name has another id."""
        topic = self._hall.catalogue.topics.get(name)
        if topic is None or topic.topic_id != topic_id:
            raise LonghallError(Code.UNKNOWN_QUEUE, f"This group does not have the queue '{name}' that is meant.")

    async def apply(self, spec: TopicSpec) -> None:
        """Create the topic or change it to this. TOPIC_EXISTS if another topic has the name."""
        async with self._changing:
            hall = self._hall
            topic = hall.catalogue.topics.get(spec.name)
            if topic is None:
                await self._create(spec)
                return
            if topic.topic_id != spec.topic_id:
                raise LonghallError(Code.TOPIC_EXISTS, f"another topic is called {spec.name!r} in this group")
            if len(topic.partitions) < spec.partitions:
                await add_partitions(hall, spec.name, spec.partitions)
            if spec.queue is not None:
                await self._apply_queue(spec.name, spec.queue)
            if topic.configuration != spec.configuration:
                await configure_topic(hall, spec.name, spec.configuration)

    async def remove(self, name: str, topic_id: bytes) -> None:
        """Delete the topic with this name and id; messages for its dead-letter queue move there first."""
        async with self._changing:
            topic = self._hall.catalogue.topics.get(name)
            if topic is None or topic.topic_id != topic_id:
                return
            if self._queues.view(name) is not None:
                await self._queues.delete(name)
            if name in self._hall.catalogue.topics:
                await delete_topic(self._hall, name)

    async def _create(self, spec: TopicSpec) -> None:
        if spec.queue is None:
            await create_topic(self._hall, spec.name, spec.partitions, spec.configuration, topic_id=spec.topic_id)
        else:
            await queue_administration.create(self._hall, spec.name, spec.queue, topic_id=spec.topic_id)

    async def _apply_queue(self, name: str, settings: QueueSettings) -> None:
        view = self._queues.view(name)
        if view is None:
            await queue_administration.declare(self._hall, name, name, settings)
        elif view.settings != settings:
            await self._queues.configure(name, settings)

    def _spec(self, name: str, topic: Topic) -> TopicSpec:
        entry = self._hall.catalogue.queues.by_name.get(name)
        return TopicSpec(
            name=name,
            topic_id=topic.topic_id,
            partitions=len(topic.partitions),
            configuration=topic.configuration,
            queue=entry.settings if entry is not None else None,
        )

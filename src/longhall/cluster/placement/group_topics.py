"""The topics that are placed in a replication group, at the group's own leader: apply, list, remove.

Changes run one at a time, so that two versions of one topic never mix.
"""

from __future__ import annotations

import asyncio
from typing import final

import msgspec

from longhall.broker.archive_hold import ArchivedRow, note_archived
from longhall.broker.catalogue import Topic
from longhall.broker.configuration import MOVES
from longhall.broker.hall import Hall
from longhall.broker.queues.service import QueueService
from longhall.broker.queues.upkeep import queue_administration
from longhall.broker.topic_administration import add_partitions, configure_topic, create_topic, delete_topic
from longhall.cluster.placement.group_moves import apply_moves, check_record
from longhall.cluster.placement.topic_operations import QueueSpec, TopicSpec, fingerprint
from longhall.errors import Code, LonghallError
from longhall.queues.settings import QueueSettings

# The verb `list` hides the type of that name inside the class.
PlacedQueues = list[tuple[str, bytes]]
ArchivedRows = list[ArchivedRow]


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
            if topic.options.wings or topic.options.moves.generation
        ]

    def list_queues(self) -> PlacedQueues:
        """Names and ids of the queues over topics that were placed here, without cursors of share groups."""
        return [
            (name, entry.queue_id)
            for name, entry in self._hall.catalogue.queues.by_name.items()
            if not entry.owns_topic and entry.settings.wings
        ]

    def check_incarnation(self, name: str, incarnation: bytes) -> None:
        """Raises UNKNOWN_QUEUE if the queue of this name is another one: a queue is known by the id of the topic that
        it owns, and a queue over a topic by its own.
        """
        entry = self._hall.catalogue.queues.by_name.get(name)
        if entry is None or incarnation != (entry.topic_id if entry.owns_topic else entry.queue_id):
            raise LonghallError(Code.UNKNOWN_QUEUE, f"This group does not have the queue '{name}' that is meant.")

    async def apply(self, spec: TopicSpec) -> None:
        """Create the topic or change it to this, with its queues. TOPIC_EXISTS or QUEUE_EXISTS if another one has the
        name.
        """
        async with self._changing:
            topic = self._hall.catalogue.topics.get(spec.name)
            if topic is not None and not topic.options.wings:  # A retry topic that the version before created here.
                await delete_topic(self._hall, spec.name)
                topic = None
            if topic is None:
                await self._create(spec)
            elif topic.topic_id != spec.topic_id:
                raise LonghallError(Code.TOPIC_EXISTS, f"another topic is called {spec.name!r} in this group")
            else:
                await self._change(topic, spec)
            for queue in spec.over:
                await self._apply_over(spec.topic_id, queue)

    async def _change(self, topic: Topic, spec: TopicSpec) -> None:
        await apply_moves(self._hall, topic, spec.configuration)
        if len(topic.partitions) < spec.partitions and not _grows(topic, spec):
            await add_partitions(self._hall, spec.name, spec.partitions)
        if spec.queue is not None:
            await self._apply_queue(spec.name, spec.queue)
        if topic.configuration != spec.configuration:
            await configure_topic(self._hall, spec.name, spec.configuration)

    async def remove(self, name: str, topic_id: bytes) -> None:
        """Delete the topic with this name and id; messages for its dead-letter queue move there first."""
        async with self._changing:
            topic = self._hall.catalogue.topics.get(name)
            if topic is None or topic.topic_id != topic_id:
                return
            entry = self._hall.catalogue.queues.by_name.get(name)
            if entry is not None and entry.owns_topic and entry.topic_id == topic_id:
                for fork in self._hall.catalogue.queues.over_topic(topic_id):  # The hall has deleted them before.
                    await self._queues.delete(fork.name)
                self._queues.outbox.watch.deleted(name)
                await self._queues.delete(name)
            if name in self._hall.catalogue.topics:
                await delete_topic(self._hall, name)

    async def remove_queue(self, name: str, queue_id: bytes) -> None:
        """Delete the queue over a topic with this name and id; messages for its dead-letter queue move there first."""
        async with self._changing:
            entry = self._hall.catalogue.queues.by_name.get(name)
            if entry is not None and entry.queue_id == queue_id and not entry.owns_topic:
                self._queues.outbox.watch.deleted(name)
                await self._queues.delete(name)

    def note_deleted(self, name: str) -> None:
        """Dead letters for this queue, of whatever group it was, stay in their queues from now on."""
        self._queues.outbox.watch.deleted(name)

    async def note_archived(self, name: str, topic_id: bytes, rows: ArchivedRows) -> None:
        """Commit the progress of the archive of a topic."""
        topic = self._hall.catalogue.topics.get(name)
        if topic is not None and topic.topic_id == topic_id:
            await note_archived(self._hall, topic, rows)

    async def _create(self, spec: TopicSpec) -> None:
        check_record(self._hall, spec.configuration)
        if spec.queue is None:
            await create_topic(self._hall, spec.name, spec.partitions, spec.configuration, topic_id=spec.topic_id)
        else:
            moves = spec.configuration if spec.configuration.get(MOVES) else {}
            await queue_administration.create(
                self._hall, spec.name, spec.queue, topic_id=spec.topic_id, configuration=moves
            )

    async def _apply_queue(self, name: str, settings: QueueSettings) -> None:
        view = self._queues.view(name)
        if view is None:
            await queue_administration.declare(self._hall, name, name, settings)
        elif view.settings != settings:
            await self._queues.configure(name, settings)

    async def _apply_over(self, topic_id: bytes, spec: QueueSpec) -> None:
        entry = self._hall.catalogue.queues.by_name.get(spec.name)
        if entry is None:
            starts, queue_id = spec.starts, spec.queue_id
            await queue_administration.declare_placed(
                self._hall, spec.name, topic_id, spec.settings, starts, queue_id=queue_id
            )
        elif entry.queue_id != spec.queue_id:
            raise LonghallError(Code.QUEUE_EXISTS, f"another queue is called {spec.name!r} in this group")
        elif entry.settings != spec.settings:
            await self._queues.configure(spec.name, spec.settings)

    def _spec(self, name: str, topic: Topic) -> TopicSpec:
        queues = self._hall.catalogue.queues
        entry = queues.by_name.get(name)
        is_owned = entry is not None and entry.owns_topic and entry.topic_id == topic.topic_id
        over = [
            QueueSpec(name=one.name, queue_id=one.queue_id, settings=one.settings)
            for one in queues.over_topic(topic.topic_id)
            if one.settings.wings
        ]
        return TopicSpec(
            name=name,
            topic_id=topic.topic_id,
            partitions=len(topic.partitions),
            configuration=topic.configuration,
            queue=entry.settings if entry is not None and is_owned else None,
            queues=over or msgspec.UNSET,
        )


def _grows(topic: Topic, spec: TopicSpec) -> bool:
    """True if the resizer of the hall changes the number of parts, in steps of its own."""
    return topic.open > 0 or (spec.queue is not None and spec.queue.parts_max > spec.queue.partitions)

"""The cursor of a share group on a topic: that of a queue, or one of its own.

    the topic                                          the cursor
    has a queue with the name of the group             of that queue
    belongs to a queue                                 of that queue: all groups take turns with its other consumers
    is a plain topic                                   the group's own, created when a member first subscribes

A cursor of a group's own is a queue over the topic with an internal name, which lists of queues pass over; the group's
id is in its settings. It begins where the group's configuration says, and has no dead-letter queue: after the last
delivery a message is passed over, and the topic keeps it until its retention ends.

This module does not know members, sessions or leases.
"""

from __future__ import annotations

from hashlib import blake2s
from typing import Final

from longhall.broker.hall import Hall
from longhall.broker.offset_lookup import look_up_offset
from longhall.broker.partition import Partition
from longhall.broker.queues.running_queue import SHARE_GROUP, RunningQueue
from longhall.broker.queues.upkeep.queue_administration import declare_from, delete
from longhall.errors import Code, LonghallError
from longhall.names import INTERNAL_PREFIX
from longhall.queues.settings import QueueSettings
from longhall.topics.share_settings import EARLIEST, ShareSettings, duration_ms

NAME_PREFIX: Final = f"{INTERNAL_PREFIX}share."
_DIGEST_BYTES: Final = 12


def cursor_of(hall: Hall, group_id: str, topic_id: bytes) -> RunningQueue | None:
    """The queue whose cursor the group uses on this topic; None if it has none yet."""
    topic = hall.catalogue.by_id.get(topic_id)
    owner: RunningQueue | None = None
    own: RunningQueue | None = None
    # Every queue on a topic listens to all its partitions; a hall may have many other queues.
    for queue in hall.routes[topic.name][0].listeners if topic is not None else ():
        if not isinstance(queue, RunningQueue):
            continue
        if queue.entry.name == group_id:
            return queue
        if queue.entry.owns_topic:
            owner = queue
        elif group_of(queue) == group_id:
            own = queue
    return owner or own


def group_of(queue: RunningQueue) -> str:
    """The share group to which a cursor belongs; empty for a queue."""
    return queue.settings.door.get(SHARE_GROUP, "")


def own_cursors(hall: Hall, group_id: str) -> list[RunningQueue]:
    """The cursors that belong to a group."""
    return [queue for queue in hall.queues.values() if group_of(queue) == group_id]


def groups_with_cursors(hall: Hall) -> set[str]:
    """The groups that have cursors of their own."""
    return {group for queue in hall.queues.values() if (group := group_of(queue))}


async def open_cursor(
    hall: Hall, group_id: str, topic_id: bytes, settings: ShareSettings, starts: dict[int, int] | None = None
) -> RunningQueue:
    """The cursor of a group on a topic, created if there is none. UNKNOWN_TOPIC_ID if there is no such topic.

    `starts` are offsets by partition number; for the others the group's configuration says where the cursor begins.
    """
    found = cursor_of(hall, group_id, topic_id)
    if found is not None:
        return found
    topic = hall.catalogue.by_id.get(topic_id)
    if topic is None:
        raise LonghallError(Code.UNKNOWN_TOPIC_ID, "There is no topic of this id.")
    begins: dict[int, int] = {}
    for partition in hall.routes[topic.name]:
        given = None if starts is None else starts.get(partition.number)
        begins[partition.lane] = await _start(hall, partition, settings) if given is None else given
    name = _name(group_id, topic_id)
    chosen = QueueSettings(lease_ms=settings.lock_ms, settled="keep", fair=False, door={SHARE_GROUP: group_id})
    try:
        return await declare_from(hall, name, topic_id, chosen, begins)
    except LonghallError as error:
        found = cursor_of(hall, group_id, topic_id)
        if found is None or error.code is not Code.QUEUE_EXISTS:
            raise
        return found  # Another member was first.


async def _start(hall: Hall, partition: Partition, settings: ShareSettings) -> int:
    if partition.elsewhere:
        return 0
    if settings.auto_offset_reset == EARLIEST:
        return partition.log.start_offset
    back_ms = duration_ms(settings.auto_offset_reset)
    if back_ms is not None:
        since_ms = max(0, hall.time.now_ms() - back_ms)
        found = await look_up_offset(hall, partition, since_ms, False, -1)
        if found is not None:
            return found[0]
    return partition.high_watermark


async def remove_cursor(hall: Hall, queue: RunningQueue) -> None:
    """Delete a cursor of a group's own."""
    assert group_of(queue)
    await delete(hall, queue)


def follow_settings(queue: RunningQueue, settings: ShareSettings) -> None:
    """Let a cursor of a group's own follow the configuration of its group."""
    if group_of(queue):
        queue.queue.limit_deliveries(settings.delivery_count_limit)
        queue.read_uncommitted(settings.reads_uncommitted)


def lock_ms_of(queue: RunningQueue, settings: ShareSettings) -> int:
    """The acquisition lock of records: that of the group's configuration, else the lease of the queue."""
    return settings.lock_ms if group_of(queue) or settings.lock_given else queue.settings.lease_ms


def _name(group_id: str, topic_id: bytes) -> str:
    """A name that no other group and topic have."""
    return NAME_PREFIX + blake2s(topic_id + group_id.encode(), digest_size=_DIGEST_BYTES).hexdigest()

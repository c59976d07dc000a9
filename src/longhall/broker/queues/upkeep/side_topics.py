"""Side topics of a queue, named after it: `QUEUE.deliveries` (audit) and `QUEUE.retry` (messages in a retry delay).

A side topic is an ordinary topic with one partition, in the queue's shard. It is created with the queue, or on first
use; an existing topic is used as it is, so that an operator can set its retention beforehand. It outlives the queue.

The audit topic of a queue in another replication group is in the same group. The main hall creates it, and the group
gets it before the queue; a group never creates it, because its topic id has to be that of the catalogue.
"""

from __future__ import annotations

from typing import Final

from longhall.broker.configuration import PLACEMENT, WINGS
from longhall.broker.hall import Hall
from longhall.broker.partition import Partition
from longhall.broker.queues.running_queue import RunningQueue
from longhall.broker.waiting import Commit
from longhall.errors import Code, LonghallError
from longhall.names import is_legal_name
from longhall.queues.audit import SUFFIX as DELIVERIES
from longhall.queues.settings import QueueSettings

RETRY: Final = ".retry"


def check_side_topics(hall: Hall, name: str, settings: QueueSettings) -> None:
    """Raises INVALID_CONFIGURATION if the names of the side topics would be illegal, or if the audit topic exists in
    another replication group than the queue.
    """
    for suffix in _wanted(settings):
        if not is_legal_name(name + suffix):
            raise LonghallError(
                Code.INVALID_CONFIGURATION, f"The name '{name}' is too long for a topic '{suffix}' beside the queue."
            )
    audit = hall.topic(name + DELIVERIES) if settings.audit != "off" and not hall.options.wing else None
    if audit is not None and audit.options.wings != list(settings.wings):
        raise LonghallError(
            Code.INVALID_CONFIGURATION,
            f"The topic '{audit.name}' exists in another replication group than the queue '{name}': delete it, or "
            f"create the queue with its placement, '{audit.configuration.get(PLACEMENT, 'hall')}'.",
        )


def make_side_topics(hall: Hall, queue: RunningQueue) -> None:
    """Create the side topics of the queue's settings. Inside an atomic write."""
    for suffix in _wanted(queue.settings):
        side_topic(hall, queue, suffix)


def side_topic(hall: Hall, queue: RunningQueue, suffix: str) -> Partition | None:
    """The log of a side topic, created if needed; None if it cannot be created. Inside an atomic write."""
    name = queue.entry.name + suffix
    partition = hall.partition(name, 0)
    if partition is None:
        wings = queue.settings.wings if suffix == DELIVERIES else ()
        if wings and hall.options.wing:
            return None
        placed = {PLACEMENT: queue.settings.placement, WINGS: ",".join(map(str, wings))} if wings else {}
        topic_id = hall.world.entropy.bytes(16)
        created = hall.catalogue.decide_create(name, topic_id, 1, placed, hall.time.now_ms(), queue.shard.number)
        if isinstance(created, Code):
            return None
        hall.append_catalogue(created, Commit())
        partition = hall.partition(name, 0)
    return partition


def placed_side_topics(hall: Hall, topic: str) -> list[str]:
    """The side topics that the groups of a topic need before the queues on it. For the main hall."""
    found, queues = hall.topic(topic), hall.catalogue.queues
    if found is None:
        return []
    owner = queues.by_name.get(topic)
    names = [entry.name for entry in queues.over_topic(found.topic_id)]
    if owner is not None and owner.owns_topic and owner.topic_id == found.topic_id:
        names.append(topic)
    return [side for name in names for side in _placed_sides(hall, name)]


def _placed_sides(hall: Hall, name: str) -> list[str]:
    """The side topics of one queue that are in its groups."""
    entry = hall.catalogue.queues.by_name.get(name)
    topic = hall.topic(name + DELIVERIES) if entry is not None and entry.settings.audit != "off" else None
    return [topic.name] if topic is not None and topic.options.wings else []


def check_unused(hall: Hall, name: str) -> None:
    """Raises TOPIC_IN_USE for the audit topic of a queue in another group, which could not create it again."""
    queue = name.removesuffix(DELIVERIES)
    if queue != name and not hall.options.wing and name in _placed_sides(hall, queue):
        raise LonghallError(
            Code.TOPIC_IN_USE, f"The queue '{queue}' writes its audit to '{name}': set audit=off of the queue first."
        )


def _wanted(settings: QueueSettings) -> list[str]:
    wanted: list[str] = []
    if settings.audit == "deliveries":
        wanted.append(DELIVERIES)
    if settings.retry is not None:
        wanted.append(RETRY)
    return wanted

"""Side topics of a queue, named after it: `QUEUE.deliveries` (audit) and `QUEUE.retry` (messages in a retry delay).

A side topic is an ordinary topic with one partition, in the queue's shard. It is created with the queue, or on first
use; an existing topic is used as it is, so that an operator can set its retention beforehand. It outlives the queue.

The side topics of a queue in other replication groups are in the same groups, with a partition for each. The main hall
creates them, and the groups get them before the queue; a group never creates one, because its topic id has to be that
of the catalogue. Below feature level 8 each group had a retry topic of its own, which only the group knew.
"""

from __future__ import annotations

from typing import Final

from longhall.broker.catalogue import Topic
from longhall.broker.configuration import PLACEMENT, WINGS
from longhall.broker.feature_gates import may_place_retries
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
    """Raises INVALID_CONFIGURATION if the names of the side topics would be illegal, or if one exists in other
    replication groups than the queue. The retry topic of an existing queue stays where the version before created it.
    """
    for suffix in _wanted(settings):
        if not is_legal_name(name + suffix):
            raise LonghallError(
                Code.INVALID_CONFIGURATION, f"The name '{name}' is too long for a topic '{suffix}' beside the queue."
            )
    if hall.options.wing:
        return
    for topic in existing_side_topics(hall, name, settings):
        if topic.name.endswith(RETRY) and (hall.running_queue(name) is not None or not may_place_retries(hall)):
            continue
        if topic.options.wings != list(settings.wings):
            raise LonghallError(
                Code.INVALID_CONFIGURATION,
                f"The topic '{topic.name}' exists in another replication group than the queue '{name}': delete it, or "
                f"create the queue with its placement, '{topic.configuration.get(PLACEMENT, 'hall')}'.",
            )


def existing_side_topics(hall: Hall, name: str, settings: QueueSettings) -> list[Topic]:
    """The side topics of a queue with these settings that exist already: of an earlier queue, or of an operator."""
    found = (hall.topic(name + suffix) for suffix in _wanted(settings))
    return [topic for topic in found if topic is not None]


def make_side_topics(hall: Hall, queue: RunningQueue) -> None:
    """Create the side topics of the queue's settings. Inside an atomic write."""
    for suffix in _wanted(queue.settings):
        side_topic(hall, queue, suffix)


def side_topic(hall: Hall, queue: RunningQueue, suffix: str) -> Partition | None:
    """The log of a side topic, created if needed; None if it cannot be created. Inside an atomic write."""
    name = queue.entry.name + suffix
    route = hall.routes.get(name)
    if route is None:
        wings = queue.settings.wings if suffix == DELIVERIES or may_place_retries(hall) else ()
        if wings and hall.options.wing:
            return None
        placed = {PLACEMENT: queue.settings.placement, WINGS: ",".join(map(str, wings))} if wings else {}
        count, topic_id = max(len(wings), 1), hall.world.entropy.bytes(16)
        created = hall.catalogue.decide_create(name, topic_id, count, placed, hall.time.now_ms(), queue.shard.number)
        if isinstance(created, Code):
            return None
        hall.append_catalogue(created, Commit())
        route = hall.routes[name]
    own = [partition for partition in route if not partition.elsewhere]
    return own[0] if own else None


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
    if entry is None or not entry.settings.wings:
        return []
    return [topic.name for topic in existing_side_topics(hall, name, entry.settings) if topic.options.wings]


def check_unused(hall: Hall, name: str) -> None:
    """Raises TOPIC_IN_USE for a side topic of a queue in other groups, which could not create it again."""
    for suffix, what, ends in ((DELIVERIES, "its audit", "audit=off"), (RETRY, "its retries", "no retry")):
        queue = name.removesuffix(suffix)
        if queue != name and not hall.options.wing and name in _placed_sides(hall, queue):
            raise LonghallError(
                Code.TOPIC_IN_USE, f"The queue '{queue}' writes {what} to '{name}': set {ends} of the queue first."
            )


def _wanted(settings: QueueSettings) -> list[str]:
    wanted: list[str] = []
    if settings.audit == "deliveries":
        wanted.append(DELIVERIES)
    if settings.retry is not None:
        wanted.append(RETRY)
    return wanted

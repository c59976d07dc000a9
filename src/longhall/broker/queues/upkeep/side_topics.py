"""Side topics of a queue, named after it: `QUEUE.deliveries` (audit) and `QUEUE.retry` (messages in a retry delay).

A side topic is an ordinary topic with one partition, in the queue's shard. It is created with the queue, or on first
use; an existing topic is used as it is, so that an operator can set its retention beforehand. It outlives the queue.
"""

from __future__ import annotations

from typing import Final

from longhall.broker.hall import Hall
from longhall.broker.partition import Partition
from longhall.broker.queues.running_queue import RunningQueue
from longhall.broker.waiting import Commit
from longhall.errors import Code, LonghallError
from longhall.names import is_legal_name
from longhall.queues.audit import SUFFIX as DELIVERIES
from longhall.queues.settings import QueueSettings

RETRY: Final = ".retry"


def check_side_topics(name: str, settings: QueueSettings) -> None:
    """Raises INVALID_CONFIGURATION if the names of the side topics would be illegal."""
    for suffix in _wanted(settings):
        if not is_legal_name(name + suffix):
            raise LonghallError(
                Code.INVALID_CONFIGURATION, f"The name '{name}' is too long for a topic '{suffix}' beside the queue."
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
        topic_id = hall.world.entropy.bytes(16)
        created = hall.catalogue.decide_create(name, topic_id, 1, {}, hall.time.now_ms(), queue.shard.number)
        if isinstance(created, Code):
            return None
        hall.append_catalogue(created, Commit())
        partition = hall.partition(name, 0)
    return partition


def _wanted(settings: QueueSettings) -> list[str]:
    wanted: list[str] = []
    if settings.audit == "deliveries":
        wanted.append(DELIVERIES)
    if settings.retry is not None:
        wanted.append(RETRY)
    return wanted

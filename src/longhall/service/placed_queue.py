"""A queue that other replication groups store, and questions to these groups."""

from __future__ import annotations

import asyncio
from typing import Protocol, TypeVar

import msgspec

from longhall.broker.hall import Hall
from longhall.cluster.rpc.operation import Caller, Operation
from longhall.queues.settings import QueueSettings

R = TypeVar("R")


class PlacedQueue(msgspec.Struct, frozen=True):
    """A queue from the local catalogue, with the topic that has its messages. `incarnation` is what its groups know it
    by: the id of the topic that it owns, or its own id.
    """

    name: str
    settings: QueueSettings
    topic_id: bytes
    topic: str
    incarnation: bytes


def placed_queue(hall: Hall, name: str) -> PlacedQueue | None:
    """A queue from the catalogue of a hall, also before its groups are known."""
    queue = hall.running_queue(name)
    if queue is None:
        return None
    entry = queue.entry
    incarnation = entry.topic_id if entry.owns_topic else entry.queue_id
    return PlacedQueue(name, queue.settings, entry.topic_id, hall.topic_name(entry.topic_id), incarnation)


class AskGroup(Protocol):
    """Has the leader of one group carry out an operation on a queue."""

    async def __call__(self, queue: PlacedQueue, number: int, operation: Operation[R], caller: Caller) -> R: ...


async def ask_all(ask: AskGroup, queue: PlacedQueue, operation: Operation[R], caller: Caller) -> list[R]:
    """The replies of all groups of a queue, in the order of its lanes."""
    return await asyncio.gather(*(ask(queue, number, operation, caller) for number in queue.settings.wings))

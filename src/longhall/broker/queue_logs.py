"""The logs of queues that no topic has: hidden logs, and the copies of a queue that moves here.

    priority level, delays   belong to one queue (`LaneMade`)
    chunks of a message      belong to no queue, because messages can move
    copies                   of the hidden logs of a queue that moves here; they become its own when they are complete

Each function applies a change of the catalogue to the partitions and queues of a hall. Nothing here decides.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from longhall.broker.configuration import hidden_options
from longhall.broker.events import (
    CatalogueEvent,
    CopyCompleted,
    CopyLogMade,
    LaneDropped,
    LaneMade,
    PartsDropped,
    PartsMade,
    QueueRenewed,
)
from longhall.broker.partition import Partition
from longhall.broker.queue_catalogue import QueueEntry
from longhall.log.partition import PartitionLog
from longhall.shards.shard import Shard

if TYPE_CHECKING:
    from longhall.broker.hall import Hall

HIDDEN_TOPIC: Final = bytes(16)  # The topic id of logs that no topic has: delays, priority levels, chunks.
LEVEL: Final = "priority:"  # The purpose of a log: this prefix and the priority level; else delayed messages.


def follow(hall: Hall, event: CatalogueEvent) -> None:
    """Create, drop and rebind logs after the catalogue has applied an event; other events change nothing here."""
    queues = hall.catalogue.queues.by_id
    match event:
        case LaneMade():
            add_log(hall, queues[event.queue_id], event.partition, event.key)
        case LaneDropped():
            _drop_hidden(hall, queues[event.queue_id], event.partition)
        case CopyLogMade():
            add_copy(hall, queues[event.queue_id], event.partition, event.lane)
        case CopyCompleted():
            _use_copies(hall, queues[event.queue_id])
        case QueueRenewed():
            _renew_logs(hall, queues[event.queue_id])
        case PartsMade():
            add_parts(hall, event.partition, event.shard)
        case PartsDropped():
            parts = hall.partitions.get(event.partition)
            if parts is not None:
                hall.drop_partition(parts)
        case _:
            pass


def add_log(hall: Hall, entry: QueueEntry, number: int, key: str) -> None:
    """Create a hidden log of a queue: for a priority level, or for delayed messages."""
    queue = hall.queues[entry.number]
    partition = _level_log(hall, entry, number, key) if key.startswith(LEVEL) else _hidden_log(hall, entry, number)
    partition.lane = entry.numbers.get(number, number)
    partition.elsewhere = queue.is_away
    if partition.number < 0:
        queue.add_lane(partition)
    else:
        queue.add_hidden(partition)


def add_parts(hall: Hall, number: int, shard: int) -> None:
    """Create a chunk log of a large message; no queue consumes it."""
    _make(hall, f"#{number}", number, hall.shards[shard])


def add_copy(hall: Hall, entry: QueueEntry, number: int, lane: int) -> None:
    """Create a log for the copy of a hidden log, unless the copy is complete and the queue has taken it over."""
    if number not in entry.lanes:
        partition = _hidden_log(hall, entry, number)
        partition.lane = lane


def _drop_hidden(hall: Hall, entry: QueueEntry, number: int) -> None:
    """Remove an empty log of delayed messages."""
    partition = hall.partitions.get(number)
    if partition is not None:
        hall.queues[entry.number].drop_hidden(partition.lane)
        hall.drop_partition(partition)


def drop_unused(hall: Hall, event: CopyCompleted | QueueRenewed) -> None:
    """Remove the logs that a queue does not use after this event; before the catalogue applies it."""
    entry = hall.catalogue.queues.by_id[event.queue_id]
    used = event.lanes if isinstance(event, CopyCompleted) else {}
    numbers = {*entry.lanes, *entry.copies.values()} - used.keys()
    if isinstance(event, QueueRenewed):
        numbers |= {*hall.catalogue.by_id[entry.topic_id].partitions}
    for number in sorted(numbers):
        partition = hall.partitions.get(number)
        if partition is not None:
            hall.drop_partition(partition)


def _use_copies(hall: Hall, entry: QueueEntry) -> None:
    """Make the copies the logs of the queue."""
    topic = hall.catalogue.by_id[entry.topic_id]
    route = hall.routes[topic.name]
    others: list[Partition] = []
    for number, key in sorted(entry.lanes.items()):
        partition = hall.partitions[number]
        if key.startswith(LEVEL):
            partition.number = -int(key.removeprefix(LEVEL))
            partition.configure(topic.options)
        others.append(partition)
    for partition in [*route, *others]:
        partition.lane = entry.numbers.get(partition.log.partition, partition.log.partition)
    queue = hall.queues[entry.number]
    queue.rebind(route, others)
    queue.follow_place(hall.options.wing)


def _renew_logs(hall: Hall, entry: QueueEntry) -> None:
    """Give a queue empty logs."""
    topic = hall.catalogue.by_id[entry.topic_id]
    route = [hall.new_partition(topic, number, log) for number, log in enumerate(topic.partitions)]
    for partition in route:
        partition.place(topic.options, hall.options.wing)
    hall.routes[topic.name] = route
    queue = hall.queues[entry.number]
    queue.rebind(route, [])
    queue.follow_place(hall.options.wing)


def _level_log(hall: Hall, entry: QueueEntry, number: int, key: str) -> Partition:
    options = hall.catalogue.by_id[entry.topic_id].options
    log = PartitionLog(hall.files, number, options.segment_bytes, options.segment_ms)
    level = int(key.removeprefix(LEVEL))
    shard = hall.queues[entry.number].shard
    partition = Partition(f"{entry.name}#{number}", HIDDEN_TOPIC, -level, shard, log, options)
    hall.partitions[number] = partition
    return partition


def _hidden_log(hall: Hall, entry: QueueEntry, number: int) -> Partition:
    return _make(hall, f"{entry.name}#{number}", number, hall.queues[entry.number].shard)


def _make(hall: Hall, name: str, number: int, shard: Shard) -> Partition:
    options = hidden_options(hall.options)
    log = PartitionLog(hall.files, number, options.segment_bytes, options.segment_ms)
    partition = hall.partitions[number] = Partition(name, HIDDEN_TOPIC, 0, shard, log, options)
    return partition

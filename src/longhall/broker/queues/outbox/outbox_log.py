"""Writes to the outboxes of this group: a message for a queue of another group, in the atomic write of its cause.

The log of an outbox is a hidden log like those of large messages. It is created with its first message, shortened as
messages are delivered, and dropped when it has been empty for a while.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from longhall.broker.events import LogTrimmed, PartsDropped, PartsMade
from longhall.broker.hall import Hall
from longhall.broker.partition import Partition
from longhall.broker.queues.write import together, write_records
from longhall.broker.waiting import Commit
from longhall.errors import Code, LonghallError
from longhall.names import OUTBOX_SHARD
from longhall.queues.outbox import STREAMS_MAX, Outbox
from longhall.queues.outbox_events import OutboxEntry, OutboxEvent, entry_encoder
from longhall.records.record import Record
from longhall.shards.shard import OUTBOX, PARTITIONS

WAITING_MAX: Final = 10_000_000  # Messages in one outbox; beyond it messages stay in their queues.
MESSAGE_BYTES_MAX: Final = 3 * 1024 * 1024  # Of one message: it must fit into one entry of the log.


def write_outbox(hall: Hall, event: OutboxEvent) -> None:
    """Append and apply an event of the outboxes."""
    hall.write_event(hall.shards[OUTBOX_SHARD], OUTBOX, event, hall.outboxes.apply)


def put(hall: Hall, target: str, entry: OutboxEntry, now_ms: int) -> tuple[int, int]:
    """Store a message for a queue of another group. Inside an atomic write, after `has_room`. Returns the stream and
    the offset behind the message.
    """
    outbox = hall.outboxes.by_target.get(target)
    stream = outbox.stream if outbox is not None else _open(hall, target)
    record = Record(-1, now_ms, None, entry_encoder.encode(entry))
    offset = write_records(hall, hall.partitions[stream], [record], now_ms, message=False)
    hall.outbox_listener.put(stream)
    return stream, offset + 1


async def arrived(hall: Hall, places: Mapping[int, int]) -> None:
    """Wait a moment until messages below these offsets, by stream, are in their queues. They are durable already."""
    for stream, behind in places.items():
        arrival = hall.outbox_listener.arrival(stream, behind)
        if arrival is not None:
            await arrival


def has_room(hall: Hall, target: str, count: int = 1) -> bool:
    """True if the outbox for this queue takes so many messages."""
    outbox = hall.outboxes.by_target.get(target)
    if outbox is None:
        return len(hall.outboxes.by_stream) < STREAMS_MAX
    return waiting(hall, outbox) + count <= WAITING_MAX


def is_waiting(hall: Hall, target: str) -> bool:
    """True if messages for this queue wait in its outbox."""
    outbox = hall.outboxes.by_target.get(target)
    return outbox is not None and waiting(hall, outbox) > 0


def waiting(hall: Hall, outbox: Outbox) -> int:
    """Messages of an outbox that are not known to be delivered."""
    partition = hall.partitions.get(outbox.stream)
    return partition.log.next_offset - outbox.next_offset if partition is not None else 0


def _open(hall: Hall, target: str) -> int:
    stream = hall.catalogue.next_partition
    opened = hall.outboxes.decide_open(stream, target)
    if isinstance(opened, Code):
        raise LonghallError(opened, f"There are {STREAMS_MAX} outboxes already.")
    hall.append_catalogue(PartsMade(partition=stream, shard=OUTBOX_SHARD), Commit())
    write_outbox(hall, opened)
    return stream


def shorten(hall: Hall, partition: Partition, start_offset: int) -> None:
    """Free the space of delivered messages."""
    if start_offset <= partition.log.start_offset or not hall.flush_tail(partition):
        return
    trimmed = LogTrimmed(partition=partition.log.partition, start_offset=start_offset)
    hall.append_event(partition.shard, PARTITIONS, trimmed)
    hall.trim(partition, start_offset)


def close(hall: Hall, outbox: Outbox) -> None:
    """Drop an empty outbox. The next message opens one with a higher number."""
    with together(hall):
        write_outbox(hall, hall.outboxes.decide_close(outbox.stream))
        hall.append_catalogue(PartsDropped(partition=outbox.stream), Commit())

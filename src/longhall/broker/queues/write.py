"""Writing for queues: events and messages that stand or fall together."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager

from longhall.broker.hall import Hall
from longhall.broker.partition import Partition
from longhall.broker.queues.running import RunningQueue
from longhall.broker.send import append
from longhall.errors import LonghallError
from longhall.queues.events import QueueEvent
from longhall.queues.steps import StagingEvent
from longhall.records.batch import build_batch, parse_header
from longhall.records.record import Record
from longhall.shards.shard import QUEUES, STAGING


@contextmanager
def together(hall: Hall) -> Iterator[None]:
    """What is written inside survives a crash as a whole or not at all. Nothing inside may wait."""
    hall.wal.hold()
    try:
        yield
    finally:
        hall.wal.let_go()


def write_queue(hall: Hall, queue: RunningQueue, events: Iterable[QueueEvent]) -> None:
    """Append and apply what the cursor decided."""
    for event in events:
        hall.append_event(queue.shard, QUEUES, event)
        queue.queue.apply(event)


def write_staging(hall: Hall, queue: RunningQueue, events: Iterable[StagingEvent]) -> None:
    """Append and apply what the staging decided."""
    for event in events:
        hall.append_event(queue.shard, STAGING, event)
        queue.staging.apply(event)


def write_records(
    hall: Hall, partition: Partition, records: Sequence[Record], now_ms: int, message: bool = True
) -> int:
    """Append these records as one batch and return the offset of the first; LonghallError if they are not taken.

    `message` is False for what was acknowledged before and only moves: it may use the space kept for that.
    """
    base = partition.log.next_offset
    placed = [
        Record(base + at, record.timestamp_ms, record.key, record.value, record.headers)
        for at, record in enumerate(records)
    ]
    batch = build_batch(placed, base_offset=base)
    code = append(hall, partition, parse_header(batch, 0), batch, 0, now_ms, message)
    if code is not None:  # Raised, so that nobody settles what was not written elsewhere.
        raise LonghallError(code)
    partition.traffic.messages_in += len(records)
    partition.traffic.bytes_in += len(batch)
    return base

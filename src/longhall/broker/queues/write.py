"""Writes of the queue service: events and messages, in atomic writes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager

from longhall.broker.hall import Hall
from longhall.broker.partition import Partition
from longhall.broker.queues.running_queue import RunningQueue
from longhall.broker.send import append
from longhall.errors import Code, LonghallError
from longhall.queues.auxiliary_events import StagingEvent, UploadEvent, WholeEvent
from longhall.queues.envelope import whole_of
from longhall.queues.events import QueueEvent
from longhall.records.batch import build_batch, parse_header
from longhall.records.record import Record
from longhall.shards.shard import PARCELS, QUEUES, STAGING


@contextmanager
def together(hall: Hall) -> Iterator[None]:
    """An atomic write: all appends inside survive a crash, or none. Nothing inside may await. An unexpected error, or
    a queue that has moved, stops the node if a part is appended already. Inside another atomic write it is a part of
    that.
    """
    if hall.wal.is_held:
        yield
        return
    appended = hall.wal.appended
    hall.wal.hold()
    try:
        yield
    except LonghallError as error:
        if error.code is Code.QUEUE_MOVED and hall.wal.appended != appended:
            hall.halt(error)  # A part is appended: recovery drops it.
        raise
    except Exception as error:
        if hall.wal.appended != appended:
            hall.halt(error)
        raise
    finally:
        hall.wal.let_go()


def write_queue(hall: Hall, queue: RunningQueue, events: Iterable[QueueEvent]) -> None:
    """Append and apply events of a queue. QUEUE_MOVED, before anything is appended, if it moves to another group."""
    check_here(queue, leaving_only=True)
    for event in events:
        hall.append_event(queue.shard, QUEUES, event)
        try:
            queue.apply(event)
        except Exception as error:
            hall.halt(error)
            raise
    if queue.has_marks and queue.queue.state.marks.has_advanced() and len(queue.waiters):
        queue.waiters.offer()  # Messages above the mark may be deliverable now.


def write_staging(hall: Hall, queue: RunningQueue, events: Iterable[StagingEvent]) -> None:
    """Append and apply events of a queue's staging."""
    check_here(queue, leaving_only=True)
    for event in events:
        hall.append_event(queue.shard, STAGING, event)
        try:
            queue.staging.apply(event)
        except Exception as error:
            hall.halt(error)
            raise


def check_here(queue: RunningQueue, *, leaving_only: bool = False) -> None:
    """Raises QUEUE_MOVED if another group serves the queue, or will in a moment. With `leaving_only` the hall may note
    changes of a queue that is in other groups.
    """
    if queue.is_away and (queue.is_leaving or not leaving_only):
        raise LonghallError(
            Code.QUEUE_MOVED, f"Queue '{queue.entry.name}' moves between replication groups; try again."
        )


def served_queue(hall: Hall, name: str) -> RunningQueue:
    """The queue of this name. UNKNOWN_QUEUE if there is none; QUEUE_MOVED if another group serves it, or will in a
    moment.
    """
    queue = hall.known_queue(name)
    check_here(queue)
    return queue


def write_upload(hall: Hall, shard: int, event: UploadEvent) -> None:
    """Append and apply an event of an upload."""
    hall.write_event(hall.shards[shard], PARCELS, event, hall.uploads[shard - 1].apply)


def write_whole(hall: Hall, shard: int, event: WholeEvent) -> None:
    """Append and apply an event of a large message."""
    hall.write_event(hall.shards[shard], PARCELS, event, hall.chunked_messages[shard - 1].apply)


def shard_of_whole(hall: Hall, name: str) -> int:
    """The shard of a large message, from the hexadecimal prefix of its name; 0 for an invalid name."""
    digits = name.partition(".")[0]
    if not 0 < len(digits) <= 4 or not digits.isalnum() or not digits.isascii():
        return 0
    try:
        number = int(digits, 16)
    except ValueError:
        return 0
    return number if 0 < number < len(hall.shards) else 0


def _hold(hall: Hall, lane: int, base: int, records: Sequence[Record]) -> None:
    """Add references from these records to their large messages."""
    for at, record in enumerate(records):
        name = whole_of(record)[0]
        shard = shard_of_whole(hall, name) if name else 0
        held = hall.chunked_messages[shard - 1].decide_hold(name, (lane, base + at)) if shard else Code.INVALID_REQUEST
        if not isinstance(held, Code):
            write_whole(hall, shard, held)


def write_records(
    hall: Hall, partition: Partition, records: Sequence[Record], now_ms: int, message: bool = True
) -> int:
    """Append these records as one batch and return the offset of the first. Raises LonghallError if it is refused.

    `message` is False for moves of acknowledged messages, which may use the reserved space.
    """
    base = partition.log.next_offset
    placed = [
        record if record.offset < 0 else Record(-1, record.timestamp_ms, record.key, record.value, record.headers)
        for record in records
    ]
    batch = build_batch(placed, base_offset=base)
    code = append(hall, partition, parse_header(batch, 0), batch, 0, now_ms, message)
    if code is not None:  # Raised, so that the caller settles nothing that was not copied.
        raise LonghallError(code)
    if not message and any(hall.chunked_messages):
        _hold(hall, partition.lane, base, records)
    partition.traffic.messages_in += len(records)
    partition.traffic.bytes_in += len(batch)
    return base

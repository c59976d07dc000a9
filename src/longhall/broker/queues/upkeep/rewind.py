"""Rewind and fork: what a queue keeps after it was settled is given out again, to the same consumers or to others.

Rewinding moves the cursor back: leases on what lies behind it are over, and receipts of before are superseded. A fork
is a second queue with a cursor of its own over the same log, from a place that the caller chooses. Both need a queue
that keeps what is settled; how long it keeps it is its retention.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import msgspec

from longhall.broker.hall import EVENT_ROOM_BYTES, Hall
from longhall.broker.offset_lookup import look_up_offset
from longhall.broker.partition import Partition
from longhall.broker.queues.audit.audit_log import audits, note_lanes
from longhall.broker.queues.running_queue import RunningQueue
from longhall.broker.queues.upkeep.queue_administration import declare_from
from longhall.broker.queues.write import together, write_queue
from longhall.broker.waiting import committed
from longhall.errors import Code, LonghallError
from longhall.queues.events import Rewound
from longhall.queues.settings import QueueSettings

START: Final = "start"

# The word "start", a time in milliseconds, or an offset for each lane by its number; lanes that are not named stay.
Destination = str | int | Mapping[int, int]


async def rewind(hall: Hall, queue: RunningQueue, to: Destination) -> None:
    """Give out again everything from there on, settled or not."""
    check_kept(queue)
    places = await _places(hall, list(queue.lanes.values()), to)
    if queue.removed:
        raise LonghallError(Code.UNKNOWN_QUEUE, f"Queue '{queue.entry.name}' was deleted.")
    if not hall.has_room(EVENT_ROOM_BYTES // 4):
        raise LonghallError(Code.STORAGE_FULL, "the disk is full")
    events = _decide(queue, places, strict=isinstance(to, Mapping))
    with together(hall):
        write_queue(hall, queue, events)
        if audits(queue):
            note_lanes(hall, queue, "rewound", [(event.lane, event.offset) for event in events])
    queue.waiters.wake(len(queue.waiters))
    await committed(hall, queue.shard)


def _decide(queue: RunningQueue, places: dict[int, int], strict: bool) -> list[Rewound]:
    """All of them or none. A place that the scan has not reached yet is no error where a time chose it."""
    events: list[Rewound] = []
    messages = queue.queue.state.messages
    size = queue.queue.state.bytes
    for lane, offset in places.items():
        cursor = queue.queue.cursor(lane)
        if not strict:
            offset = min(offset, cursor.scan)
        again = max(0, cursor.scan - offset - len(cursor.live_between(offset, cursor.scan)))
        messages += again
        size += again * _mean_bytes(queue.lanes[lane]) if queue.counts_bytes else 0
        rewound = queue.queue.decide_rewind(lane, offset, messages, size)
        if isinstance(rewound, Code):
            raise LonghallError(rewound, f"Nothing at or above offset {cursor.scan} has been given out yet.")
        events.append(rewound)
    return events


async def fork(
    hall: Hall, queue: RunningQueue, name: str, start: Destination, settings: QueueSettings | None = None
) -> RunningQueue:
    """A queue of this name over the same log, from there on; with the same settings if none are given.

    Priorities are left out of it: in the log that the two share, messages stand in the order of their availability.
    """
    check_kept(queue)
    route = [partition for partition in queue.lanes.values() if partition.number >= 0]
    places = await _places(hall, route, start)
    starts: dict[int, int] = {}
    for partition in route:
        lane = partition.log.partition
        if isinstance(start, Mapping):
            offset = places.get(lane, queue.queue.cursor(lane).floor())
        else:
            offset = places.get(lane, partition.high_watermark)
        starts[lane] = offset
        if offset > partition.high_watermark:
            raise LonghallError(Code.OFFSET_OUT_OF_RANGE, f"The log ends at offset {partition.high_watermark}.")
    if queue.removed:
        raise LonghallError(Code.UNKNOWN_QUEUE, f"Queue '{queue.entry.name}' was deleted.")
    chosen = msgspec.structs.replace(settings or queue.settings, priorities=1, parts_max=1)
    return await declare_from(hall, name, queue.entry.topic_id, chosen, starts)


def check_kept(queue: RunningQueue) -> None:
    """Only what is kept can be given out again."""
    if queue.settings.settled != "keep":
        raise LonghallError(
            Code.NOT_KEPT, f"Queue '{queue.entry.name}' frees what is settled: it would need 'settled: keep'."
        )


async def _places(hall: Hall, lanes: list[Partition], to: Destination) -> dict[int, int]:
    """Offsets by log; a log is not in it when nothing in it is as new as the time, or when it was not named."""
    if isinstance(to, Mapping):
        return _named(lanes, to)
    if isinstance(to, str):
        if to != START:
            raise LonghallError(Code.INVALID_REQUEST, f"'{to}' is no place: 'start', a time or offsets are.")
        return {partition.log.partition: partition.log.start_offset for partition in lanes}
    if to < 0:
        raise LonghallError(Code.INVALID_REQUEST, "a time is not negative")
    places: dict[int, int] = {}
    for partition in lanes:
        found = await look_up_offset(hall, partition, to, False, -1)
        if found is not None:
            places[partition.log.partition] = found[0]
    return places


def _named(lanes: list[Partition], offsets: Mapping[int, int]) -> dict[int, int]:
    numbers = {partition.number: partition for partition in lanes}
    places: dict[int, int] = {}
    for number, offset in offsets.items():
        partition = numbers.get(number)
        if partition is None:
            raise LonghallError(Code.INVALID_REQUEST, f"The queue has no lane {number}.")
        if offset < partition.log.start_offset:
            raise LonghallError(Code.OFFSET_OUT_OF_RANGE, f"Lane {number} begins at {partition.log.start_offset}.")
        places[partition.log.partition] = offset
    return places


def _mean_bytes(partition: Partition) -> int:
    log = partition.log
    return log.bytes_kept() // max(1, log.next_offset - log.start_offset)

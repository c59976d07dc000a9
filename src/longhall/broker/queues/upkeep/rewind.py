"""Rewind and fork: settled messages that a queue keeps are delivered again, to the same queue or to a new one.

A rewind moves the scan back: leases above the new position end, and earlier receipts are superseded. A fork is a second
queue with its own cursor on the same log, from a chosen position. Both require a queue with `settled: keep`; its
retention limits how far back they reach.
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
    """Deliver everything from there on again, settled or not."""
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
    """Decide for all lanes or none. Positions above the scan are an error only with `strict`."""
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
            raise LonghallError(rewound, f"Nothing at or above offset {cursor.scan} has been delivered yet.")
        events.append(rewound)
    return events


async def fork(
    hall: Hall, queue: RunningQueue, name: str, start: Destination, settings: QueueSettings | None = None
) -> RunningQueue:
    """Create a queue of this name on the same log, from there on; by default with the same settings."""
    starts = await fork_starts(hall, queue, start)
    by_log = {queue.route[number].lane: offset for number, offset in starts.items()}
    return await declare_from(hall, name, queue.entry.topic_id, fork_settings(settings or queue.settings), by_log)


def fork_settings(settings: QueueSettings) -> QueueSettings:
    """The settings of a fork. It has no priorities: it delivers in the order of the shared log."""
    return msgspec.structs.replace(settings, priorities=1, parts_max=1)


async def fork_starts(hall: Hall, queue: RunningQueue, start: Destination) -> dict[int, int]:
    """The offsets at which a fork begins, by partition: of the partitions that this group stores."""
    check_kept(queue)
    route = [partition for partition in queue.route if not partition.elsewhere]
    places = await _places(hall, route, start)
    starts: dict[int, int] = {}
    for partition in route:
        lane = partition.lane
        if isinstance(start, Mapping):
            offset = places.get(lane, queue.queue.cursor(lane).floor())
        else:
            offset = places.get(lane, partition.high_watermark)
        starts[partition.number] = offset
        if offset > partition.high_watermark:
            raise LonghallError(Code.OFFSET_OUT_OF_RANGE, f"The log ends at offset {partition.high_watermark}.")
    if queue.removed:
        raise LonghallError(Code.UNKNOWN_QUEUE, f"Queue '{queue.entry.name}' was deleted.")
    return starts


def check_kept(queue: RunningQueue) -> None:
    """Raises NOT_KEPT if the queue frees settled messages."""
    if queue.settings.settled != "keep":
        raise LonghallError(
            Code.NOT_KEPT, f"Queue '{queue.entry.name}' frees settled messages: it needs 'settled: keep'."
        )


async def _places(hall: Hall, lanes: list[Partition], to: Destination) -> dict[int, int]:
    """Offsets by log, without logs that have no message as new as the time, or that are not named."""
    if isinstance(to, Mapping):
        return _named(lanes, to)
    if isinstance(to, str):
        if to != START:
            raise LonghallError(Code.INVALID_REQUEST, f"'{to}' is not a position: give 'start', a time or offsets.")
        return {partition.lane: partition.log.start_offset for partition in lanes}
    if to < 0:
        raise LonghallError(Code.INVALID_REQUEST, "a time must not be negative")
    places: dict[int, int] = {}
    for partition in lanes:
        found = await look_up_offset(hall, partition, to, False, -1)
        if found is not None:
            places[partition.lane] = found[0]
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
        places[partition.lane] = offset
    return places


def _mean_bytes(partition: Partition) -> int:
    log = partition.log
    return log.bytes_kept() // max(1, log.next_offset - log.start_offset)

"""The positions of share groups, for administrators: described, moved and deleted.

Only cursors of a group's own are moved and deleted here. A queue that a group consumes is rewound, purged and deleted
as a queue, because it has other consumers.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from longhall.broker.hall import EVENT_ROOM_BYTES, Hall
from longhall.broker.partition import Partition
from longhall.broker.queues.running_queue import RunningQueue
from longhall.broker.queues.write import together, write_queue
from longhall.broker.share.cursors import cursor_of, group_of, open_cursor, remove_cursor
from longhall.broker.waiting import committed
from longhall.errors import Code, LonghallError
from longhall.queues.events import Purged, QueueEvent, Rewound
from longhall.topics.share_settings import ShareSettings


class SharePosition(msgspec.Struct, array_like=True, frozen=True):
    """The position of a group in a partition: the first unsettled offset, and the number of unsettled records; or why
    that is not known.
    """

    start_offset: int = -1
    leader_epoch: int = 0
    lag: int = -1
    code: Code | None = None
    message: str = ""


def position_of(hall: Hall, group_id: str, partition: Partition) -> SharePosition:
    """The position of a group in a partition; -1 if it has none, NOT_LEADER if another group stores the partition."""
    if partition.elsewhere:
        return SharePosition(code=Code.NOT_LEADER, message="Another replication group stores this partition.")
    queue = cursor_of(hall, group_id, partition.topic_id)
    lane = partition.lane
    if queue is None or lane not in queue.queue.state.lanes:
        return SharePosition()
    cursor = queue.queue.cursor(lane)
    start = max(cursor.floor(), partition.log.start_offset)
    lag = max(0, partition.high_watermark - max(cursor.scan, partition.log.start_offset)) + cursor.outstanding
    return SharePosition(start, partition.epoch, lag)


async def move_positions(
    hall: Hall, group_id: str, topic: str, offsets: Mapping[int, int], settings: ShareSettings
) -> None:
    """Let a group go on from these offsets, by partition. Raises LonghallError, and moves nothing then."""
    route = hall.routes.get(topic)
    if route is None:
        raise LonghallError(Code.UNKNOWN_TOPIC, f"There is no topic '{topic}'.")
    starts: dict[int, int] = {}
    for number, offset in offsets.items():
        partition = hall.partition(topic, number)
        if partition is None or partition.elsewhere:
            raise LonghallError(Code.UNKNOWN_TOPIC, f"Topic '{topic}' has no partition {number} here.")
        if not 0 <= offset <= partition.high_watermark:
            said = f"Partition {number} of '{topic}' ends at offset {partition.high_watermark}."
            raise LonghallError(Code.OFFSET_OUT_OF_RANGE, said)
        starts[number] = max(offset, partition.log.start_offset)
    if not hall.has_room(EVENT_ROOM_BYTES // 4):
        raise LonghallError(Code.STORAGE_FULL, "the disk is full")
    queue = await open_cursor(hall, group_id, route[0].topic_id, settings, starts)
    _check_own(queue, group_id)
    with together(hall):
        for number, offset in starts.items():
            write_queue(hall, queue, _moved(queue, route[number], offset))
    queue.waiters.wake(len(queue.waiters))
    await committed(hall, queue.shard)


def _moved(queue: RunningQueue, partition: Partition, offset: int) -> list[QueueEvent]:
    lane = partition.lane
    messages = partition.log.next_offset - offset
    for other, log in queue.lanes.items():
        if other != lane and other in queue.queue.state.lanes:
            cursor = queue.queue.cursor(other)
            messages += max(0, log.log.next_offset - cursor.scan) + cursor.outstanding
    events: list[QueueEvent] = []
    if offset < queue.queue.cursor(lane).scan:
        events.append(Rewound(queue=queue.number, lane=lane, offset=offset, messages=messages, bytes=0))
    purged_ms = queue.queue.state.purged_ms
    events.append(Purged(queue=queue.number, positions=[(lane, offset)], at_ms=purged_ms, messages=messages))
    return events


async def delete_positions(hall: Hall, group_id: str, topic: str) -> None:
    """Delete the cursor of a group on a topic. Raises LonghallError."""
    found = hall.topic(topic)
    queue = cursor_of(hall, group_id, found.topic_id) if found is not None else None
    if queue is None:
        raise LonghallError(Code.UNKNOWN_TOPIC, f"The group has no position on topic '{topic}'.")
    _check_own(queue, group_id)
    await remove_cursor(hall, queue)


def _check_own(queue: RunningQueue, group_id: str) -> None:
    if group_of(queue) != group_id:
        said = f"The group consumes the queue '{queue.entry.name}', which is rewound, purged and deleted as a queue."
        raise LonghallError(Code.INVALID_REQUEST, said)

"""Priority copies: a message with a priority, or a late one, is delivered from the lane of its level.

The message itself is in the topic like every other, so that Kafka readers and forks see each message once. In the same
atomic write a copy with the same id, and with the position of the original, is appended to the hidden log of its level;
the queue delivers the copy and skips the original. This holds for sends through every door. The log of a level is
created on first use.
"""

from __future__ import annotations

from typing import Final, final

from longhall.broker.events import LaneMade
from longhall.broker.hall import EVENT_ROOM_BYTES, Hall
from longhall.broker.partition import Partition
from longhall.broker.queue_logs import LEVEL
from longhall.broker.queues.running_queue import RunningQueue, priority_queue_on
from longhall.broker.queues.write import write_queue
from longhall.broker.send import append_here
from longhall.broker.waiting import Commit
from longhall.errors import Code, LonghallError
from longhall.queues.envelope import decode_record
from longhall.queues.events import LaneOpened
from longhall.queues.level_copies import level_copy
from longhall.queues.stamps import HEAD, mark_late
from longhall.records.batch import BatchHeader, build_batch, parse_header, read_records
from longhall.records.record import Record

TOGETHER_BYTES_MAX: Final = 4 * 1024 * 1024 + 512 * 1024  # Of a batch and its copies, which are in one frame.


@final
class PriorityCopier:
    """Appends batches to the lanes of queues with priorities, with the copies."""

    def __init__(self, hall: Hall) -> None:
        self._hall = hall

    def append(
        self, partition: Partition, header: BatchHeader, frame: bytes, at: int, now_ms: int, message: bool
    ) -> Code | None:
        """Append a batch and the copies of its messages with a priority, in one atomic write.

        In a queue that goes by stamps the late messages of the batch are marked first.
        """
        queue = priority_queue_on(partition)
        if queue is not None and queue.settings.late_stamped == HEAD and queue.queue.state.newest_stamp:
            marked = _marked_late(queue, header, frame, at)
            if marked is not None:
                code = self._append(queue, partition, parse_header(marked, 0), marked, 0, now_ms, message)
                header.base_offset = partition.log.next_offset - header.record_count
                return code
        return self._append(queue, partition, header, frame, at, now_ms, message)

    def _append(
        self,
        queue: RunningQueue | None,
        partition: Partition,
        header: BatchHeader,
        frame: bytes,
        at: int,
        now_ms: int,
        message: bool,
    ) -> Code | None:
        hall = self._hall
        levels = _by_level(queue, partition, header, frame, at, now_ms) if queue is not None else {}
        if queue is None or not levels:
            return append_here(hall, partition, header, frame, at, now_ms, message)
        copies = {level: build_batch(records, compression=header.compression) for level, records in levels.items()}
        copied_bytes = sum(len(batch) for batch in copies.values())
        if header.size_bytes + copied_bytes > TOGETHER_BYTES_MAX:
            return Code.MESSAGE_TOO_LARGE
        if message:
            if hall.is_backed_up:
                hall.backlog.refusals += 1
                return Code.COMMIT_BACKLOG
            if hall.space_bytes < header.size_bytes + copied_bytes:
                hall.storage_full = True
            if hall.storage_full or not hall.has_room(header.size_bytes + copied_bytes + EVENT_ROOM_BYTES):
                return Code.STORAGE_FULL
            hall.space_bytes -= copied_bytes
        holds = not hall.wal.is_held
        if holds:
            hall.wal.hold()
        try:
            code = append_here(hall, partition, header, frame, at, now_ms, message)
            if code is not None:
                return code
            for level, batch in copies.items():
                lane = self._lane(queue, level)
                code = append_here(hall, lane, parse_header(batch, 0), batch, 0, now_ms, False)
                if code is not None:  # The message is appended and its copy is not: recovery drops both.
                    hall.halt(LonghallError(code, "a copy of a message with a priority could not be stored"))
                    return code
        finally:
            if holds:
                hall.wal.let_go()
        return None

    def _lane(self, queue: RunningQueue, level: int) -> Partition:
        """The log of a level, created on first use."""
        lane = queue.levels.get(level)
        if lane is None:
            hall = self._hall
            number = hall.catalogue.next_partition
            made = LaneMade(queue_id=queue.entry.queue_id, partition=number, key=f"{LEVEL}{level}")
            hall.append_catalogue(made, Commit())
            opened = LaneOpened(queue=queue.number, lane=number, priority=level)
            write_queue(hall, queue, [opened])
            lane = queue.levels[level]
        return lane


def _marked_late(queue: RunningQueue, header: BatchHeader, frame: bytes, at: int) -> bytes | None:
    """The batch with a mark on its late messages; None if it has none. Transactional messages are not copied."""
    if header.is_control or header.is_transactional:
        return None
    try:
        records = read_records(frame, at)
    except LonghallError:
        return None
    marked = mark_late(records, queue.queue.state.newest_stamp)
    if marked is None:
        return None
    return build_batch(
        marked,
        base_offset=header.base_offset,
        producer_id=header.producer_id,
        producer_epoch=header.producer_epoch,
        base_sequence=header.base_sequence,
        compression=header.compression,
    )


def _by_level(
    queue: RunningQueue, partition: Partition, header: BatchHeader, frame: bytes, at: int, now_ms: int
) -> dict[int, list[Record]]:
    """The copies, by level."""
    found: dict[int, list[Record]] = {}
    if header.is_control or header.is_transactional:
        return found
    try:
        records = read_records(frame, at)
    except LonghallError:  # An unreadable batch is skipped on delivery.
        return found
    base_offset = parse_header(frame, at).base_offset
    number = partition.lane
    for record in records:
        level = queue.level_of(header, record)
        if level:
            offset = partition.log.next_offset + record.offset - base_offset
            placed = Record(offset, record.timestamp_ms, record.key, record.value, record.headers)
            copy = level_copy(placed, decode_record(placed, number).message_id, now_ms, partition.number)
            found.setdefault(level, []).append(copy)
    for copies in found.values():
        for index, copy in enumerate(copies):
            copies[index] = Record(index, copy.timestamp_ms, copy.key, copy.value, copy.headers)
    return found

"""Promotion of due messages from staging to the lanes of the queue, many messages in one atomic write.

Only the loops over single messages; nothing here awaits. `DueMessages` tells the caller what to wait for.
"""

from __future__ import annotations

from typing import Final, final

from longhall.broker.hall import Hall
from longhall.broker.queues.dead_letters.move_bounds import takes
from longhall.broker.queues.running_queue import RunningQueue
from longhall.broker.queues.write import together, write_records, write_staging
from longhall.errors import Code, LonghallError
from longhall.queues.envelope import body_bytes_of, released_record, sent_as
from longhall.queues.outcomes import UNREADABLE, Candidate
from longhall.records.record import Record

NOTHING: Final = -1
AHEAD_MAX: Final = 500
PROMOTED_BYTES_MAX: Final = 512 * 1024  # In one atomic write, plus the message that exceeds it.

Places = list[tuple[int, int]]


@final
class DueMessages:
    """The messages of the places up to `behind`, and why the list ends there, if not for its size."""

    def __init__(self, at: int) -> None:
        self.behind = at
        self.found: list[tuple[int, Record]] = []
        self.cold = NOTHING  # The lane that must be read from disk first.
        self.uncommitted = False  # The next message is due but not committed yet.
        self.unreadable = False  # The next message is under repair.


def gather_due(queue: RunningQueue, places: Places, at: int) -> DueMessages:
    """The messages at these places, from the index `at` on. Missing ones are skipped.

    Messages that are due together are mostly adjacent, so one read ahead serves many.
    """
    load = DueMessages(at)
    lane = NOTHING
    size = 0
    index = 0
    candidates: list[Candidate] = []
    while load.behind < len(places) and size < PROMOTED_BYTES_MAX:
        place = places[load.behind]
        offset = place[1]
        if (
            place[0] != lane
            or index >= len(candidates)
            or not candidates[index].offset <= offset < candidates[-1].next_offset
        ):
            lane = place[0]
            partition = queue.hidden[lane]
            if partition.high_watermark <= offset < partition.log.next_offset:
                load.uncommitted = True
                break
            looked = queue.window(lane).look(offset, AHEAD_MAX)
            if looked is None:
                load.cold = lane
                break
            if looked and looked[0].size_bytes == UNREADABLE:
                load.unreadable = True
                break
            candidates = looked
            index = 0
        while index < len(candidates) and candidates[index].next_offset <= offset:
            index += 1
        if index < len(candidates) and candidates[index].offset == offset:
            record = candidates[index].payload
            if isinstance(record, Record):
                load.found.append((lane, record))
                size += len(record.value or b"")
        load.behind += 1
    return load


def promote(hall: Hall, queue: RunningQueue, load: DueMessages, places: Places) -> None:
    """Append the messages to their lanes and settle the staged copies of these places, in one atomic write."""
    now_ms = hall.time.now_ms()
    if queue.settings.bytes_max:
        size = sum(body_bytes_of(record) for _, record in load.found)
        if not takes(hall, queue, 0, size, staged=True):
            raise LonghallError(Code.QUEUE_FULL, f"Queue '{queue.entry.name}' is full.")
    targets: dict[int, list[Record]] = {}
    lanes = len(queue.route)
    for lane, record in load.found:
        if not queue.staging.is_settled(lane, record.offset):  # A purge may have happened during the read.
            group = sent_as(record)[1] if lanes > 1 else ""
            target = queue.lane_for(0, group).lane
            targets.setdefault(target, []).append(released_record(record, lane, now_ms))
    with together(hall):
        for target, records in targets.items():
            write_records(hall, queue.lanes[target], records, now_ms, message=False)
        write_staging(hall, queue, queue.staging.decide_settle(places))

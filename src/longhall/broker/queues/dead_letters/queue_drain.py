"""Queue drain: before a queue is deleted, its messages move to its dead-letter queue.

Waiting messages move first, then leased ones, then delayed ones; each in an atomic write, so a crash leaves every
message in one of the two queues. The queue neither accepts nor delivers messages meanwhile. If the node stops before
the end, the queue still exists, the delete was not acknowledged, and the client retries.

A queue on a topic of its own moves all messages; a queue over another topic moves only its delayed messages.
"""

from __future__ import annotations

import asyncio
from typing import Final

from longhall.broker.hall import EVENT_ROOM_BYTES, Hall
from longhall.broker.queues.dead_letters.dead_lettering import dead_letter, dead_letter_queue_of, dead_letter_staged
from longhall.broker.queues.delivery.message_lookup import look, look_up_record, warm
from longhall.broker.queues.running_queue import RunningQueue
from longhall.broker.queues.write import together, write_queue, write_staging
from longhall.broker.waiting import committed
from longhall.errors import Code, LonghallError
from longhall.queues.envelope import decode_record
from longhall.queues.outcomes import DELETED, LENGTH, Candidate, Death, Status
from longhall.records.record import Record

EVERYTHING: Final = 1 << 60
STEP_MAX: Final = 128


async def drain_to_dead_letters(hall: Hall, queue: RunningQueue) -> None:
    """Move all messages; returns at once without a dead-letter queue, or without `on_delete`."""
    settings = queue.settings.dead_letters
    letters = dead_letter_queue_of(hall, queue)
    if settings is None or not settings.on_delete or letters is None or letters.queue is queue:
        return
    queue.removed = True  # Stops sends, receives and promotions.
    queue.waiters.wake(len(queue.waiters))
    try:
        while _is_left(queue):
            if queue.entry.owns_topic:
                await _drain_waiting(hall, queue)
                await _drain_leased(hall, queue)
            await _drain_staged(hall, queue)
            await committed(hall, queue.shard)
    finally:
        queue.removed = hall.queues.get(queue.number) is not queue


def _is_left(queue: RunningQueue) -> bool:
    if queue.staging.count:
        return True
    if not queue.entry.owns_topic:
        return False
    # Messages of open transactions do not count.
    ends = [(lane, partition.last_stable_offset) for lane, partition in queue.lanes.items()]
    return queue.queue.waiting(ends) + queue.queue.in_flight + queue.queue.held_back > 0


async def _drain_waiting(hall: Hall, queue: RunningQueue) -> None:
    while True:
        _check_room(hall)
        outcome = queue.queue.decide_drop(hall.time.now_ms(), EVERYTHING, 0, queue.peek)
        write_queue(hall, queue, outcome.events)
        for death in outcome.deaths:
            if death.reason == LENGTH:
                death.reason = DELETED
        dead_letter(hall, queue, outcome.deaths)
        if outcome.status is Status.COLD:
            await warm(hall, queue, outcome.cold_lane)
        elif not outcome.deaths and outcome.status is not Status.MORE:
            return
        await asyncio.sleep(0)


async def _drain_leased(hall: Hall, queue: RunningQueue) -> None:
    for lane in list(queue.lanes):
        cursor = queue.queue.cursor(lane)
        for offset in cursor.live_between(0, cursor.scan):
            _check_room(hall)
            record = await look_up_record(hall, queue, lane, offset)
            lease = queue.queue.lease_of(lane, offset)
            if lease is not None:
                size = len(record.value or b"") if record is not None else -1
                candidate = Candidate(offset, offset + 1, size, "", -1, record)
                dead_letter(hall, queue, [Death(lane, offset, DELETED, lease[2], lease[3], candidate)])


async def _drain_staged(hall: Hall, queue: RunningQueue) -> None:
    for lane in list(queue.hidden):
        offset = queue.hidden[lane].log.start_offset
        while candidates := await look(hall, queue, lane, offset, STEP_MAX):
            _check_room(hall)
            for candidate in candidates:
                record = candidate.payload
                if isinstance(record, Record) and not queue.staging.is_settled(lane, record.offset):
                    with together(hall):
                        dead_letter_staged(hall, queue, record, decode_record(record, lane), DELETED)
                        settled = queue.staging.decide_settle([(lane, record.offset)], "cancelled")
                        write_staging(hall, queue, settled)
            offset = candidates[-1].next_offset
            await asyncio.sleep(0)


def _check_room(hall: Hall) -> None:
    if not hall.has_room(EVENT_ROOM_BYTES // 2):
        raise LonghallError(Code.STORAGE_FULL, "the disk is full")

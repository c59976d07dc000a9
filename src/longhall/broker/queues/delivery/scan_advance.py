"""Advances the scan of the ordinary lane of a queue with priorities, so that the originals of copies can be freed.

The originals stay in the log until the scan has passed them, and a queue that is busy with higher levels never scans
the ordinary lane. The cleaner calls this for large logs: the scan passes the originals, and a bounded number of
messages of the lowest level, which become outstanding and keep their order.
"""

from __future__ import annotations

import asyncio
from typing import Final

from longhall.broker.hall import EVENT_ROOM_BYTES, Hall
from longhall.broker.partition import Partition
from longhall.broker.queues.delivery.message_lookup import warm
from longhall.broker.queues.running_queue import RunningQueue, priority_queue_on
from longhall.broker.queues.write import write_queue
from longhall.queues.events import Passed
from longhall.queues.outcomes import UNREADABLE, Candidate

BYTES_MIN: Final = 32 * 1024 * 1024  # Smaller logs are skipped.
READY_MAX: Final = 10_000  # Half of the bound of passed messages; filters need the other half.
STEPS_MAX: Final = 400
_STEP: Final = 500


async def advance_scan(hall: Hall, partition: Partition) -> None:
    """Advance the scan of an ordinary lane."""
    lane = partition.lane
    queue = priority_queue_on(partition)
    if queue is None or queue.settings.settled != "free" or partition.log.bytes_kept() < BYTES_MIN:
        return
    for _ in range(STEPS_MAX):
        if partition.deleted or queue.removed or not hall.has_room(EVENT_ROOM_BYTES // 4):
            return
        found = queue.peek(lane, queue.queue.cursor(lane).scan, _STEP)
        if found is None:
            await warm(hall, queue, lane)
            continue
        until = _until(queue, found)
        if until <= queue.queue.cursor(lane).scan:
            return
        passed = queue.queue.decide_pass(lane, until, queue.peek)
        if not isinstance(passed, Passed):
            return
        write_queue(hall, queue, [passed])
        await asyncio.sleep(0)


def _until(queue: RunningQueue, found: list[Candidate]) -> int:
    """The offset up to which the scan may move."""
    room = READY_MAX - queue.queue.state.leases.ready
    until = -1
    for candidate in found:
        if candidate.size_bytes >= 0:
            if room <= 0:
                break
            room -= 1
        elif candidate.size_bytes == UNREADABLE:
            break
        until = candidate.next_offset
    return until

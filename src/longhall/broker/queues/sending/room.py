"""Room in a bounded queue: what `when_full` asks for before messages are appended.

when_full     the sender of a message for which there is no room
refuse        is refused
wait          waits until consumers have settled enough, up to a bound
drop-oldest   is served after the oldest available messages are gone
dead-letter   is served after the oldest available messages are dead letters; refused without a dead-letter queue
"""

from __future__ import annotations

import asyncio
from typing import Final

from longhall.broker.hall import Hall
from longhall.broker.queues.dead_letters.dead_lettering import dead_letter, dead_letter_queue_of
from longhall.broker.queues.delivery.message_lookup import warm
from longhall.broker.queues.running_queue import RunningQueue
from longhall.broker.queues.write import write_queue
from longhall.broker.waiting import committed
from longhall.errors import Code, LonghallError
from longhall.queues.outcomes import Candidate, Overflow, Status

FULL_WAIT_S_MAX: Final = 10.0  # How long a producer waits for room in a queue that asks it to.
FULL_STEP_S: Final = 0.01


async def make_room(hall: Hall, queue: RunningQueue, count: int, size: int) -> bool:
    """Let there be room for so many messages and bytes; True if that took a while. QUEUE_FULL if there is none."""
    ends_s = asyncio.get_running_loop().time() + FULL_WAIT_S_MAX
    has_waited = False
    while True:
        decided = decide_room(hall, queue, count, size)
        if decided is None:
            return has_waited
        has_waited = True
        if not await go_on(hall, queue, decided, ends_s):
            raise LonghallError(Code.QUEUE_FULL, f"Queue '{queue.entry.name}' stayed full.")


def is_too_long(queue: RunningQueue) -> bool:
    """True if the oldest messages of a queue of AMQP have to go."""
    settings = queue.settings
    if (
        settings.amqp is None
        or settings.when_full != "drop-oldest"
        or not (settings.messages_max or settings.bytes_max)
    ):
        return False
    return queue.queue.decide_send(0, 0, queue.staging.count) is not None


def decide_room(hall: Hall, queue: RunningQueue, count: int, size: int) -> Overflow | None:
    """None if there is room now, else what has to happen first: see `go_on`. QUEUE_FULL if the queue refuses."""
    decided = queue.queue.decide_send(count, size, queue.staging.count)
    if decided is None:
        return None
    if isinstance(decided, Code) or (
        queue.settings.when_full == "dead-letter" and not _letters_have_room(hall, queue, decided)
    ):
        raise LonghallError(Code.QUEUE_FULL, f"Queue '{queue.entry.name}' is full.")
    return decided


def _letters_have_room(hall: Hall, queue: RunningQueue, overflow: Overflow) -> bool:
    letters = dead_letter_queue_of(hall, queue)
    return letters is not None and letters.makes_room(hall, max(overflow.messages, 1), overflow.bytes)


async def go_on(hall: Hall, queue: RunningQueue, overflow: Overflow, ends_s: float) -> bool:
    """One step towards room; False if the time to wait for it is over."""
    if overflow.wait:
        if asyncio.get_running_loop().time() >= ends_s:
            return False
        await asyncio.sleep(FULL_STEP_S)
    elif not await _drop_oldest(hall, queue, overflow):
        raise LonghallError(Code.QUEUE_FULL, f"Queue '{queue.entry.name}' is full of messages in flight.")
    return True


async def _drop_oldest(hall: Hall, queue: RunningQueue, overflow: Overflow) -> bool:
    """Let the oldest go, or come nearer to them; False if there are none that could."""

    def peek(lane: int, offset: int, count: int) -> list[Candidate] | None:
        return queue.window(lane).look(offset, count)

    outcome = queue.queue.decide_drop(hall.time.now_ms(), overflow.messages, overflow.bytes, peek)
    write_queue(hall, queue, outcome.events)
    dead_letter(hall, queue, outcome.deaths)
    if outcome.status is Status.COLD:
        await warm(hall, queue, outcome.cold_lane)
        return True
    if outcome.deaths or outcome.status is Status.MORE:
        return True
    if all(partition.high_watermark == partition.log.next_offset for partition in queue.lanes.values()):
        return False
    await committed(hall, queue.shard)  # What was sent a moment ago, perhaps by the same call, may go next.
    return True

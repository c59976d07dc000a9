"""The lease timer of a queue: wakes waiting receivers when a lease or a retry delay ends, or delivery hours begin.

Without it every receiver would need a timer for every lease.
"""

from __future__ import annotations

import asyncio
from typing import Final

from longhall.broker.hall import Hall
from longhall.broker.queues.delivery.time_zones import opens_ms
from longhall.broker.queues.running_queue import RunningQueue

APART_MS: Final = 8  # Leases that end within this time are handled together.
CLOSED_MS_MAX: Final = 60_000  # Outside the hours the timer is set again after this time: followers adjust hall time.


def arm_lease_timer(hall: Hall, queue: RunningQueue) -> None:
    """Set the timer to the next lease end. Called before a receiver waits, and after each lease while one does."""
    now_ms = hall.time.now_ms()
    deadline_ms = next_change_ms(queue, now_ms)
    if deadline_ms is None:
        return
    loop = asyncio.get_running_loop()
    at_s = loop.time() + max(deadline_ms - now_ms, APART_MS) / 1000
    if queue.lease_timer is not None:
        if queue.lease_timer[0] <= at_s:
            return
        queue.lease_timer[1].cancel()
    queue.lease_timer = at_s, loop.call_at(at_s, _fire, hall, queue)


def next_change_ms(queue: RunningQueue, now_ms: int) -> int | None:
    """When messages may become available by time alone; None if that does not happen."""
    hours = queue.settings.hours
    if hours is not None:
        opens = opens_ms(hours, now_ms)
        if opens > now_ms:  # Until then nothing is delivered, whichever lease ends.
            return min(opens, now_ms + CLOSED_MS_MAX)
    return queue.queue.next_deadline_ms()


def _fire(hall: Hall, queue: RunningQueue) -> None:
    queue.lease_timer = None
    if not queue.removed and len(queue.waiters):
        now_ms = hall.time.now_ms()
        queue.queue.tick(now_ms)
        if opens_ms(queue.settings.hours, now_ms) <= now_ms:
            queue.waiters.offer()
        arm_lease_timer(hall, queue)

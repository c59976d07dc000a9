"""The lease timer of a queue: wakes waiting receivers when a lease or a retry delay ends.

Without it every receiver would need a timer for every lease.
"""

from __future__ import annotations

import asyncio
from typing import Final

from longhall.broker.hall import Hall
from longhall.broker.queues.running_queue import RunningQueue

APART_MS: Final = 8  # Leases that end within this time are handled together.


def arm_lease_timer(hall: Hall, queue: RunningQueue) -> None:
    """Set the timer to the next lease end. Called before a receiver waits, and after each lease while one does."""
    deadline_ms = queue.queue.next_deadline_ms()
    if deadline_ms is None:
        return
    loop = asyncio.get_running_loop()
    at_s = loop.time() + max(deadline_ms - hall.time.now_ms(), APART_MS) / 1000
    if queue.lease_timer is not None:
        if queue.lease_timer[0] <= at_s:
            return
        queue.lease_timer[1].cancel()
    queue.lease_timer = at_s, loop.call_at(at_s, _fire, hall, queue)


def _fire(hall: Hall, queue: RunningQueue) -> None:
    queue.lease_timer = None
    if not queue.removed and len(queue.waiters):
        queue.queue.tick(hall.time.now_ms())
        queue.waiters.offer()
        arm_lease_timer(hall, queue)

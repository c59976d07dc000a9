"""Alarm: the end of a lease or of a wait lets those look again who wait for messages. One timer a queue.

Without it every receiver would have to wake for every lease that might have ended.
"""

from __future__ import annotations

import asyncio
from typing import Final

from longhall.broker.hall import Hall
from longhall.broker.queues.running_queue import RunningQueue

APART_MS: Final = 8  # Leases that end one after another are noticed together, so that receivers get more than one.


def arm_lease_timer(hall: Hall, queue: RunningQueue) -> None:
    """Be awake when the next lease ends. For who is about to wait, and after every lease while somebody does."""
    deadline_ms = queue.queue.next_deadline_ms()
    if deadline_ms is None:
        return
    loop = asyncio.get_running_loop()
    at_s = loop.time() + max(deadline_ms - hall.time.now_ms(), APART_MS) / 1000
    if queue.lease_timer is not None:
        if queue.lease_timer[0] <= at_s:
            return
        queue.lease_timer[1].cancel()
    queue.lease_timer = at_s, loop.call_at(at_s, _ring, hall, queue)


def _ring(hall: Hall, queue: RunningQueue) -> None:
    queue.lease_timer = None
    if not queue.removed and len(queue.waiters):
        queue.queue.tick(hall.time.now_ms())
        queue.waiters.offer()
        arm_lease_timer(hall, queue)

"""The expirer: removes expired messages from queues without receivers, and the oldest of queues that are too long.

A receive removes the expired messages that it meets. A queue without receivers would keep them, so the expirer checks
the head of each queue that is known to have messages with a time to live. After a start this is unknown: every queue is
checked once, a few at a time and without caching.

Dead letters enter a bounded queue of AMQP in the atomic write that removes them elsewhere, and what a connection held
returns to it when that ends; its oldest messages give way here, within LOOK_S.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable
from typing import Final, final

from longhall.broker.background import cancel
from longhall.broker.hall import EVENT_ROOM_BYTES, Hall
from longhall.broker.queues.dead_letters.dead_lettering import dead_letter
from longhall.broker.queues.delivery.message_lookup import look_into, warm
from longhall.broker.queues.delivery.window import Window
from longhall.broker.queues.running_queue import EXPIRES, MAY_EXPIRE, NEVER_EXPIRES, RunningQueue
from longhall.broker.queues.sending.room import is_too_long, make_room
from longhall.broker.queues.write import write_queue
from longhall.errors import LonghallError
from longhall.queues.outcomes import Status

LOOK_S: Final = 0.05
LOOKS_APART: Final = 20  # Queues that AMQP has not declared are checked once in this number of rounds.
STEPS_MAX: Final = 100  # In one queue, before the next queue is checked.
FIRST_LOOKS_MAX: Final = 64  # Unchecked queues in one round.

_log = logging.getLogger("longhall.queues")


@final
class Expirer:
    """The periodic expiry check of one hall."""

    def __init__(self, hall: Hall) -> None:
        self._hall = hall
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Start the task."""
        self._task = self._hall.background.start("expire", self._run)

    async def stop(self) -> None:
        """Stop the task."""
        await cancel(self._task)

    async def _run(self) -> None:
        rounds = 0
        while True:
            await asyncio.sleep(LOOK_S)
            rounds += 1
            for queue in [one for one in self._hall.queues.values() if is_too_long(one)]:
                await self._try(self._trim(queue), queue)
            first_looks = 0
            everything = rounds % LOOKS_APART == 0
            for queue in [
                one for one in self._hall.queues.values() if one.expiry != NEVER_EXPIRES and not one.is_closed
            ]:
                if not everything and (queue.settings.amqp is None or queue.expiry == MAY_EXPIRE):
                    continue
                if queue.expiry == MAY_EXPIRE and first_looks >= FIRST_LOOKS_MAX:
                    continue
                if queue.expiry == MAY_EXPIRE:
                    first_looks += 1
                    await self._try(self._look_first(queue), queue)
                if queue.expiry == EXPIRES:
                    await self._try(self._look(queue), queue)
                await asyncio.sleep(0)

    async def _try(self, work: Awaitable[object], queue: RunningQueue) -> None:
        try:
            await work
        except (OSError, LonghallError) as error:
            extra = {"queue": queue.entry.name, "reason": str(error)}
            _log.warning("messages could not be removed from a queue", extra=extra)

    async def _trim(self, queue: RunningQueue) -> None:
        """Let the oldest messages of a queue go that dead letters and returned messages have made too long."""
        if not queue.is_closed and self._hall.has_room(EVENT_ROOM_BYTES // 4):
            await make_room(self._hall, queue, 0, 0)

    async def _look_first(self, queue: RunningQueue) -> None:
        """Find out whether the head of any log has a time to live."""
        found = NEVER_EXPIRES
        if queue.settings.time_to_live_ms or queue.staging.count:
            found = EXPIRES
        for lane, partition in list(queue.lanes.items()):
            offset = queue.queue.cursor(lane).floor()
            if found == NEVER_EXPIRES and offset < partition.high_watermark:
                first = await look_into(self._hall, Window(partition, queue), offset, 1)
                if any(one.expires_ms >= 0 for one in first):
                    found = EXPIRES
        if queue.expiry == MAY_EXPIRE:  # Else a send has set it meanwhile.
            queue.expiry = found

    async def _look(self, queue: RunningQueue) -> None:
        for _ in range(STEPS_MAX):
            if queue.is_closed or not self._hall.has_room(EVENT_ROOM_BYTES // 4):
                return
            outcome = queue.queue.decide_expire(self._hall.time.now_ms(), queue.peek)
            write_queue(self._hall, queue, outcome.events)
            dead_letter(self._hall, queue, outcome.deaths)
            if outcome.status is Status.COLD:
                await warm(self._hall, queue, outcome.cold_lane)
            elif not outcome.deaths:
                return
            await asyncio.sleep(0)

"""Planted bugs of outboxes: at the source, at the target, and in the router between them."""

from __future__ import annotations

import asyncio
import itertools
from typing import Any, Final

from longhall.broker.queues.dead_letters import late_arrivals
from longhall.broker.queues.outbox import arrivals
from longhall.broker.queues.outbox.outbox_delivery import OutboxDelivery
from longhall.broker.queues.write import together
from longhall.queues.outbox_events import OutboxBatch
from longhall.service import placed_queues
from simulation.bug import Bug

_Replacements = list[tuple[Any, str, Any]]


def _remember_in_memory() -> _Replacements:
    """The target does not write the identity to its log, so that the next leader does not know it."""

    def write_queue(hall: Any, queue: Any, events: Any) -> None:
        for event in events:
            queue.apply(event)

    return [(arrivals, "write_queue", write_queue)]


def _forget_before_delivery() -> _Replacements:
    """The source commits that the messages are delivered before it sends them, and does not send them again."""
    good: Any = OutboxDelivery._deliver

    async def deliver(self: Any, outbox: Any, rows: Any, run: Any) -> bool:
        behind = rows[-1][0] + 1
        await self._aim(outbox, behind, outbox.topic_id, behind)
        run.delivered = behind
        await good(self, outbox, rows, run)
        return True

    return [(OutboxDelivery, "_deliver", deliver)]


def _send_under_a_new_number() -> _Replacements:
    """A repeat has another stream number than the first attempt."""
    attempts = itertools.count(1)

    async def deliver(self: Any, outbox: Any, rows: Any, run: Any) -> bool:
        stream = outbox.stream + (next(attempts) << 40)
        batch = OutboxBatch(self._hall.options.wing, stream, rows)
        reached: int = await self.carrier.deliver(outbox.target, outbox.topic_id, batch)
        run.delivered = max(reached, rows[0][0])
        return bool(reached > rows[0][0])

    return [(OutboxDelivery, "_deliver", deliver)]


def _choose_the_lane_anew() -> _Replacements:
    """A repeat goes to another lane of the target, which does not know the message."""
    turns = itertools.count()

    def lane_of_moved(settings: Any, entry: Any, offset: int) -> int:
        return next(turns) % len(settings.wings)

    return [(placed_queues, "lane_of_moved", lane_of_moved)]


def _bury_later() -> _Replacements:
    """What arrives for a deleted queue is acknowledged, and written a moment later."""
    good: Any = late_arrivals.bury

    def bury(hall: Any, letters: Any, name: str, record: Any, message: bool = True) -> str:
        async def write() -> None:
            await asyncio.sleep(0.3)
            with together(hall):
                good(hall, letters, name, record, message)

        hall.background.start("bury", write)
        return "later"

    return [(late_arrivals, "bury", bury)]


OUTBOX_BUGS: Final[dict[str, Bug]] = {
    "remember-in-memory": Bug(
        "A target forgets at a failover which messages of an outbox it has.", "outbox", 4, _remember_in_memory
    ),
    "forget-before-delivery": Bug(
        "A source frees the messages of an outbox before the target has them.",
        "outbox",
        4,
        _forget_before_delivery,
    ),
    "send-under-a-new-number": Bug(
        "A message of an outbox is repeated under another identity.", "outbox", 4, _send_under_a_new_number
    ),
    "bury-later": Bug(
        "A message for a deleted queue is acknowledged before its dead letter is written.", "outbox", 2, _bury_later
    ),
    "choose-the-lane-anew": Bug(
        "A repeat of an outbox goes to another lane than the message.", "outbox", 4, _choose_the_lane_anew
    ),
}

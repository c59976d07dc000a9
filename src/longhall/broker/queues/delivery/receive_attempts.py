"""Receives by attempt id: a receiver that repeats a request gets the messages that the first one leased.

An attempt is remembered while all its messages are still leased by it, and for ATTEMPT_MS at the most.
"""

from __future__ import annotations

from typing import Final, final

from longhall.broker.hall_time import HallTime
from longhall.broker.queues.running_queue import RunningQueue
from longhall.errors import Code
from longhall.queues.messages import Delivery

ATTEMPT_MS: Final = 300_000
ATTEMPTS_MAX: Final = 10_000


@final
class ReceiveAttempts:
    """The deliveries of each attempt, by queue and attempt id; the oldest are forgotten first."""

    def __init__(self, time: HallTime) -> None:
        self._time = time
        self._attempts: dict[tuple[int, str], tuple[int, list[Delivery]]] = {}

    def remember(self, queue: RunningQueue, attempt_id: str, deliveries: list[Delivery]) -> None:
        """Remember what a receive with this attempt id leased."""
        if len(self._attempts) >= ATTEMPTS_MAX:
            self._attempts.pop(next(iter(self._attempts)))
        self._attempts[queue.number, attempt_id] = (self._time.now_ms(), deliveries)

    def find(self, queue: RunningQueue, attempt_id: str) -> list[Delivery] | None:
        """The messages that an earlier request with this id leased; None if it does not hold all of them now."""
        found = self._attempts.get((queue.number, attempt_id))
        if found is None:
            return None
        now_ms = self._time.now_ms()
        for delivery in found[1]:
            receipt = queue.receipts.verify(delivery.receipt)
            lease = None if isinstance(receipt, Code) else queue.queue.lease_of(receipt[0], receipt[1])
            fresh = lease is not None and not isinstance(receipt, Code) and lease[0] == receipt[2]
            if not fresh or lease is None or lease[1] <= now_ms or now_ms - found[0] > ATTEMPT_MS:
                del self._attempts[queue.number, attempt_id]
                return None
        return found[1]

"""The input and the result of a receive on a queue, as small compiled classes."""

from __future__ import annotations

import enum
from typing import Final, final

from longhall.queues.events import Leased, Passed

# Causes of death: why a message leaves a queue without a settle.
ATTEMPTS: Final = "attempts"
EXPIRED: Final = "expired"
RETENTION: Final = "retention"  # It is older than its log keeps messages; it is dropped, as the cleaner would drop it.
LENGTH: Final = "length"
REJECTED: Final = "rejected"  # A consumer said that it cannot be processed.
DELETED: Final = "deleted"  # The queue was deleted.
DELAYED: Final = "delayed"  # No death: it is not due yet, and hidden until it is.
GONE: Final = "gone"  # The log has lost it: there is nothing to move, but `Died` must be applied.

NEVER_MS: Final = 1 << 62
UNTIL_DELIVERED_MS: Final = 1  # As the end of a life: it ends with the first delivery, when a consumer gives it back.
UNREADABLE: Final = -2  # The size of a message that cannot be read at present: nothing may skip or remove it.


class Status(enum.Enum):
    """The result of a request for messages."""

    GIVEN = "given"
    DEATHS = "deaths"  # No message yet: handle the deaths and retry.
    COLD = "cold"  # No message yet: read `cold_lane` from `cold_offset` on into memory and retry.
    MORE = "more"  # No message yet, but the scan has moved: retry.
    EMPTY = "empty"
    CLOSED = "closed"  # Paused, or outside the delivery hours.
    BUSY = "busy"  # The queue delivers one by one, and the last message is still leased.
    TOO_MANY = "too-many"  # The bound of messages in flight, or of passed messages, is reached.


@final
class Candidate:
    """A message of the log. `next_offset` is the offset at which the search for the next message continues.

    A negative size means that there is no message from `offset` to `next_offset`: markers, aborted or filtered records.
    UNREADABLE is the exception: there is one, and another replica repairs it.
    `payload` belongs to the broker; the outcome returns it unchanged.
    """

    def __init__(
        self,
        offset: int,
        next_offset: int,
        size_bytes: int,
        group: str = "",
        expires_ms: int = -1,
        payload: object = None,
        due_ms: int = 0,
        is_outdated: bool = False,
    ) -> None:
        self.offset = offset
        self.next_offset = next_offset
        self.size_bytes = size_bytes
        self.group = group
        self.expires_ms = expires_ms
        self.payload = payload
        self.due_ms = due_ms  # A message that may be not due yet has an `expires_ms`, NEVER_MS if it has no end.
        self.is_outdated = is_outdated  # True if retention has ended: it has an `expires_ms` in the past.

    def is_over(self, now_ms: int, attempts: int = 0) -> bool:
        """True if its time to live has ended, after so many deliveries."""
        return 0 <= self.expires_ms <= now_ms and (attempts > 0 or self.expires_ms != UNTIL_DELIVERED_MS)


@final
class Given:
    """One leased message of an outcome."""

    def __init__(self, lane: int, number: int, attempts: int, first_ms: int, candidate: Candidate) -> None:
        self.lane = lane
        self.number = number
        self.attempts = attempts
        self.first_ms = first_ms
        self.candidate = candidate


@final
class Death:
    """One message that must leave the queue. `candidate` is None if the reason is GONE."""

    def __init__(
        self, lane: int, offset: int, reason: str, attempts: int, first_ms: int, candidate: Candidate | None
    ) -> None:
        self.lane = lane
        self.offset = offset
        self.reason = reason
        self.attempts = attempts
        self.first_ms = first_ms
        self.candidate = candidate


@final
class Outcome:
    """The result of a decision. The caller appends and applies `events`, handles the deaths, then delivers `given`."""

    def __init__(self, status: Status) -> None:
        self.status = status
        self.events: list[Passed | Leased] = []
        self.given: list[Given] = []
        self.deaths: list[Death] = []
        self.cold_lane = -1
        self.cold_offset = -1


@final
class Overflow:
    """A send exceeds the bounds of the queue: wait for room, or drop this much of the oldest (`decide_drop`)."""

    def __init__(self, wait: bool, messages: int, bytes: int) -> None:
        self.wait = wait
        self.messages = messages
        self.bytes = bytes

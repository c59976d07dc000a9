"""What the broker hands to a queue when somebody wants messages, and what it gets back. Small compiled classes."""

from __future__ import annotations

import enum
from typing import Final, final

from longhall.queues.events import Leased, Passed

# Why a message leaves a queue without being settled.
ATTEMPTS: Final = "attempts"
EXPIRED: Final = "expired"
LENGTH: Final = "length"
DELETED: Final = "deleted"  # The queue is no longer there.
GONE: Final = "gone"  # The log does not have it any more: nothing to move, but `Died` still has to be applied.


class Status(enum.Enum):
    """How a request for messages ended."""

    GIVEN = "given"
    DEATHS = "deaths"  # Nothing yet: handle the deaths and ask again.
    COLD = "cold"  # Nothing yet: bring `cold_lane` from `cold_offset` on into memory and ask again.
    MORE = "more"  # Nothing yet, but the scan moved on: ask again.
    EMPTY = "empty"
    CLOSED = "closed"  # Paused, or outside the delivery hours.
    BUSY = "busy"  # One by one, and the one before is still out.
    TOO_MANY = "too-many"  # The bound of messages in flight, or of those passed over, is reached.


@final
class Candidate:
    """A message as the log has it. `next_offset` is behind it and behind everything up to the next message.

    A negative size means that there is no message from `offset` up to `next_offset`: markers, aborted or filtered ones.
    `payload` is the broker's own; it comes back with what is given out.
    """

    def __init__(
        self,
        offset: int,
        next_offset: int,
        size_bytes: int,
        group: str = "",
        expires_ms: int = -1,
        payload: object = None,
    ) -> None:
        self.offset = offset
        self.next_offset = next_offset
        self.size_bytes = size_bytes
        self.group = group
        self.expires_ms = expires_ms
        self.payload = payload

    def is_over(self, now_ms: int) -> bool:
        """Whether its time to live is over."""
        return 0 <= self.expires_ms <= now_ms


@final
class Given:
    """One message given out."""

    def __init__(self, lane: int, number: int, attempts: int, first_ms: int, candidate: Candidate) -> None:
        self.lane = lane
        self.number = number
        self.attempts = attempts
        self.first_ms = first_ms
        self.candidate = candidate


@final
class Death:
    """One message that must leave. `candidate` is None when it is GONE."""

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
    """The answer. Append and apply `events` in their order, then handle the deaths, then deliver what is given."""

    def __init__(self, status: Status) -> None:
        self.status = status
        self.events: list[Passed | Leased] = []
        self.given: list[Given] = []
        self.deaths: list[Death] = []
        self.cold_lane = -1
        self.cold_offset = -1


@final
class Overflow:
    """The queue has no room for what is sent: wait until it has, or let so much of the oldest go (`decide_drop`)."""

    def __init__(self, wait: bool, messages: int, bytes: int) -> None:
        self.wait = wait
        self.messages = messages
        self.bytes = bytes

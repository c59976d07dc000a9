"""The records of a producer for one partition: those that wait, and the one batch in flight.

One batch at a time keeps the order without further bookkeeping. Records that arrive meanwhile make the next batch
larger, so a slow hall gets fewer and larger batches.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import NamedTuple, final

from longhall.client.groups import Place
from longhall.client.transactions import Identity
from longhall.records.batch import Record

RECORD_OVERHEAD_BYTES = 32


class Sent(NamedTuple):
    """The place of a sent record. The offset is -1 if no acknowledgement was requested."""

    topic: str
    partition: int
    offset: int


class Waiting(NamedTuple):
    """A record that is not acknowledged yet."""

    record: Record
    sent: asyncio.Future[Sent]
    size_bytes: int


def size_of(record: Record) -> int:
    """The approximate size of a record in a batch."""
    size = RECORD_OVERHEAD_BYTES + len(record.key or b"") + len(record.value or b"")
    for name, value in record.headers:
        size += len(name) + len(value or b"") + 4
    return size


@final
class Backlog:
    """The backlog of one partition. Sequence numbers belong to the identity that they were counted under."""

    def __init__(self, place: Place) -> None:
        self.place = place
        self.waiting: deque[Waiting] = deque()
        self.waiting_bytes = 0
        self.sender: asyncio.Task[None] | None = None
        self.timer: asyncio.TimerHandle | None = None
        self._identity: Identity | None = None
        self._sequence = 0

    def put(self, waiting: Waiting) -> None:
        self.waiting.append(waiting)
        self.waiting_bytes += waiting.size_bytes

    def take(self, bytes_max: int) -> list[Waiting]:
        """The next batch: at least one record, and no more than fit."""
        taken = [self.waiting.popleft()]
        size = taken[0].size_bytes
        while self.waiting and size + self.waiting[0].size_bytes <= bytes_max:
            taken.append(self.waiting.popleft())
            size += taken[-1].size_bytes
        self.waiting_bytes -= size
        return taken

    def sequence(self, identity: Identity) -> int:
        """The next sequence number under this identity."""
        if identity != self._identity:
            self._identity = identity
            self._sequence = 0
        return self._sequence

    def advance(self, count: int) -> None:
        self._sequence = (self._sequence + count) & 0x7FFFFFFF

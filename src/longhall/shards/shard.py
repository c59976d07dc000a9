"""One shard: a sequence of entries with one leader, one epoch and one commit position.

Many partitions, groups and transactions share a shard. After an append, `wait` registers a callback for the commit of
everything appended so far; nothing is visible outside before. On a single node an entry is committed when the
write-ahead log is synced after it. In a cluster every entry also goes to the feed, and replication determines its
commit.

`wait_for` waits for less: one host, or a majority of the in-sync replicas, that has the entry on its disk. A committed
entry satisfies both; on a single node all three are the same.
"""

from __future__ import annotations

from collections import deque
from typing import Final, final

from mypy_extensions import mypyc_attr

from longhall.log.frames import (
    BATCH_CONTINUED,
    BATCH_CONTINUES,
    CONTINUED,
    CONTINUES,
    encode_batch,
    encode_event,
    encode_reference,
)
from longhall.log.notes import Notes
from longhall.log.wal import Wal
from longhall.shards.feed import Feed

EVENT_PART_BYTES: Final = 1024 * 1024  # The part of an event in one entry.
BATCH_PART_BYTES: Final = 2 * 1024 * 1024  # The part of a batch in one entry, where it spans several.

# Which replicas must have an entry before its sender is acknowledged.
ONE: Final = 0  # The leader.
QUORUM: Final = 1  # More than half of the in-sync replicas.
ALL: Final = 2  # All in-sync replicas: committed.

# Rooms that apply events; part of the stored format.
CATALOGUE: Final = 0
GROUPS: Final = 1
TRANSACTIONS: Final = 2
PARTITIONS: Final = 3
SHARD: Final = 4
QUEUES: Final = 5
STAGING: Final = 6
MOVES: Final = 7
PARCELS: Final = 8
OUTBOX: Final = 10
USAGE: Final = 11


@mypyc_attr(allow_interpreted_subclasses=True)
class Committable:
    """An object that waits for a commit."""

    def committed(self, value: int) -> None:
        """Everything appended before `wait(self, value)` is committed."""
        raise NotImplementedError


@final
class Shard:
    """One sequence in the write-ahead log. `sequence` is the last appended entry, `committed` the last released one."""

    def __init__(self, number: int, wal: Wal) -> None:
        self.number = number
        self.epoch = 0
        self.sequence = 0
        self.committed = 0
        self.feed: Feed | None = None
        self.notes: Notes | None = None  # Of entries of this and other shards.
        self.opened = 0  # Messages in batches that are opened when they are appended, and again in a replay.
        self._wal = wal
        self._waiting: deque[tuple[int, Committable, int]] = deque()
        self._reached = [0, 0]  # The last entries that ONE and QUORUM have.
        self._waiting_for: list[deque[tuple[int, Committable, int]]] = [
            deque(),
            deque(),
        ]  # Waiting for ONE and for QUORUM.

    def append_batch(self, partition: int, flags: int, stored: bytes) -> None:
        """Append a small batch: its bytes are stored in the write-ahead log."""
        if self.notes is not None and self.notes.is_due():
            self.notes.write()
        sequence = self.sequence + 1
        head = encode_batch(flags, self.number, sequence, self.epoch, partition, len(stored))
        if self.feed is not None:
            self.feed.entry(self.number, sequence, head, stored)
        self.sequence = sequence
        self._wal.append(head, stored)

    def append_batch_in_parts(self, partition: int, flags: int, stored: bytes) -> None:
        """Append a batch that is too large for one entry, as adjacent entries."""
        if self.notes is not None:
            self.notes.write()  # Not between its entries.
        at = 0
        flags |= BATCH_CONTINUED
        while at < len(stored):
            part = stored[at : at + BATCH_PART_BYTES]
            at += len(part)
            if at >= len(stored):
                flags &= ~BATCH_CONTINUED
            self.append_batch(partition, flags, part)
            flags = BATCH_CONTINUED | BATCH_CONTINUES

    def append_reference(self, partition: int, flags: int, position: int, header: bytes) -> None:
        """Append a reference to a large batch in its segment. Not with a feed, which needs whole batches."""
        assert self.feed is None
        if self.notes is not None and self.notes.is_due():
            self.notes.write()
        self.sequence += 1
        self._wal.append(encode_reference(flags, self.number, self.sequence, self.epoch, partition, position, header))

    def append_event(self, room: int, event: bytes) -> None:
        """Append an event. One that is too large for one entry spans several."""
        if self.notes is not None and self.notes.is_due():
            self.notes.write()
        flags = 0
        while len(event) > EVENT_PART_BYTES:
            part, event = event[:EVENT_PART_BYTES], event[EVENT_PART_BYTES:]
            self._append_part(room, flags | CONTINUED, part)
            flags = CONTINUES
        self._append_part(room, flags, event)

    def _append_part(self, room: int, flags: int, part: bytes) -> None:
        sequence = self.sequence + 1
        entry = encode_event(flags, self.number, sequence, self.epoch, room, part)
        if self.feed is not None:
            self.feed.entry(self.number, sequence, entry, b"")
        self.sequence = sequence
        self._wal.append(entry)

    def wait(self, target: Committable, value: int) -> None:
        """Call `target.committed(value)` when everything appended so far is committed."""
        if self.committed >= self.sequence and not self._waiting:
            target.committed(value)
        else:
            self._waiting.append((self.sequence, target, value))

    def wait_for(self, level: int, target: Committable, value: int) -> None:
        """The same when everything appended so far is stored by ONE host, by a QUORUM, or by ALL."""
        if level == ALL:
            self.wait(target, value)
        elif max(self._reached[level], self.committed) >= self.sequence and not self._waiting_for[level]:
            target.committed(value)
        else:
            self._waiting_for[level].append((self.sequence, target, value))

    def advance(self, sequence: int) -> None:
        """Everything up to `sequence` is committed: release the waiting callbacks in order."""
        if sequence <= self.committed:
            return
        self.committed = sequence
        for content in self._waiting_for:
            if content:
                _release(content, sequence)
        _release(self._waiting, sequence)

    def reach(self, level: int, sequence: int) -> None:
        """Everything up to `sequence` is stored by ONE or by a QUORUM: release the callbacks that wait for that."""
        if sequence > self._reached[level]:
            self._reached[level] = sequence
            if self._waiting_for[level]:
                _release(self._waiting_for[level], sequence)

    @property
    def waiting(self) -> int:
        """How many callbacks wait."""
        return len(self._waiting) + len(self._waiting_for[ONE]) + len(self._waiting_for[QUORUM])


def _release(waiting: deque[tuple[int, Committable, int]], sequence: int) -> None:
    while waiting and waiting[0][0] <= sequence:
        _, target, value = waiting.popleft()
        target.committed(value)

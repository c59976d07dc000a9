"""A timing wheel: the next due entries among millions, without a heap over all of them.

Entries are in unordered buckets of 64 ms, eight bytes each. A bucket becomes a heap only when it is due, so an insert
costs one append, and no step sorts more than the entries of 64 ms. An entry is one integer:

    +---------------------+----------------+------------------+
    | due in bucket, 6 b  | slot, 9 bits   | offset, 48 bits  |
    +---------------------+----------------+------------------+

A slot is a small number that the owner assigns to a log. The module reads no clock.
"""

from __future__ import annotations

import heapq
from array import array
from typing import Final, final

BUCKET_BITS: Final = 6
BUCKET_MASK: Final = (1 << BUCKET_BITS) - 1
SLOTS_MAX: Final = 512
OFFSET_BITS: Final = 48
OFFSET_MASK: Final = (1 << OFFSET_BITS) - 1
PLACE_BITS: Final = OFFSET_BITS + 9


@final
class Wheel:
    """Entries by due time. Entries up to `_ripe_bucket` are in the heap `_ripe`, later ones in buckets."""

    def __init__(self) -> None:
        self._buckets: dict[int, array[int]] = {}
        self._order: list[int] = []  # A heap of the bucket numbers.
        self._ripe: list[int] = []  # A heap of the entries of due buckets, by full due time.
        self._ripe_bucket = -1  # Everything up to this bucket is in the heap.
        self.count = 0

    def add(self, due_ms: int, slot: int, offset: int) -> None:
        """Insert an entry."""
        bucket = due_ms >> BUCKET_BITS
        place = (slot << OFFSET_BITS) | offset
        self.count += 1
        if bucket <= self._ripe_bucket:
            heapq.heappush(self._ripe, (due_ms << PLACE_BITS) | place)
            return
        entries = self._buckets.get(bucket)
        if entries is None:
            entries = array("q")
            self._buckets[bucket] = entries
            heapq.heappush(self._order, bucket)
        entries.append(((due_ms & BUCKET_MASK) << PLACE_BITS) | place)

    def next_ms(self, now_ms: int) -> int:
        """The next due time, -1 if there is none: exact within the current bucket, else the start of a bucket."""
        self._ripen(now_ms)
        if self._ripe:
            return self._ripe[0] >> PLACE_BITS
        return self._order[0] << BUCKET_BITS if self._order else -1

    def take(self, now_ms: int, count_max: int) -> list[tuple[int, int]]:
        """Remove at most `count_max` due entries and return slot and offset of each, the longest due first."""
        taken: list[tuple[int, int]] = []
        limit = (now_ms + 1) << PLACE_BITS
        while len(taken) < count_max:
            if not self._ripe:
                self._ripen(now_ms)
            ripe = self._ripe
            if not ripe or ripe[0] >= limit:
                break
            entry = heapq.heappop(ripe)
            taken.append(((entry >> OFFSET_BITS) & (SLOTS_MAX - 1), entry & OFFSET_MASK))
        self.count -= len(taken)
        return taken

    def _ripen(self, now_ms: int) -> None:
        """If the heap is empty, make it of the first bucket that has begun."""
        if self._ripe or not self._order or self._order[0] > now_ms >> BUCKET_BITS:
            return
        bucket = heapq.heappop(self._order)
        base = bucket << (BUCKET_BITS + PLACE_BITS)
        ripe = [base + entry for entry in self._buckets.pop(bucket)]
        heapq.heapify(ripe)
        self._ripe = ripe
        self._ripe_bucket = bucket

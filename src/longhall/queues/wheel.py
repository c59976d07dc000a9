"""What is due next, among millions, without a heap over all of them.

Entries stand in buckets of 64 ms, eight bytes each, in no order. A bucket becomes a heap only when its time has come,
so that adding costs one append and no step ever sorts more than 64 ms worth. An entry is one integer:

    +---------------------+----------------+------------------+
    | due in bucket, 6 b  | slot, 9 bits   | offset, 48 bits  |
    +---------------------+----------------+------------------+

Slots are small numbers that the owner gives out, one a log. Nothing here reads a clock.
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
    """See the module."""

    def __init__(self) -> None:
        self._buckets: dict[int, array[int]] = {}
        self._order: list[int] = []  # Heap of the buckets that exist.
        self._ripe: list[int] = []  # Heap of what has come or comes within this bucket, by full time.
        self._ripe_bucket = -1  # Everything up to this bucket is in the heap.
        self.count = 0

    def add(self, due_ms: int, slot: int, offset: int) -> None:
        """Let it come at `due_ms`."""
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
        """When the next one comes, -1 if none: exact within the bucket of now, else the start of a bucket."""
        self._ripen(now_ms)
        if self._ripe:
            return self._ripe[0] >> PLACE_BITS
        return self._order[0] << BUCKET_BITS if self._order else -1

    def take(self, now_ms: int, count_max: int) -> list[tuple[int, int]]:
        """Slot and offset of at most so many that have come, the longest due first; they are in the wheel no more."""
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
        """Make the first bucket that has begun the heap, if the heap is empty."""
        if self._ripe or not self._order or self._order[0] > now_ms >> BUCKET_BITS:
            return
        bucket = heapq.heappop(self._order)
        base = bucket << (BUCKET_BITS + PLACE_BITS)
        ripe = [base + entry for entry in self._buckets.pop(bucket)]
        heapq.heapify(ripe)
        self._ripe = ripe
        self._ripe_bucket = bucket

"""The position of a queue in one lane: how far it has scanned, and which scanned messages are not settled.

    ............ settled ............ | settled, except what is outstanding  | waiting
                                    floor                                  scan

The acknowledgement bitmap is stored as its complement: a page of 64 offsets exists only while one of them is
outstanding, and maps each outstanding offset to its row of the lease table. Waiting and settled messages cost no
memory, and a message that is never settled costs one page. Offsets become outstanding in ascending order, so the first
page has the floor.

The cursor does not know what a row means, what time it is, or whether an offset was ever a message.
"""

from __future__ import annotations

from heapq import heapify
from typing import Final, final

from librt.vecs import vec
from mypy_extensions import i32

NO_ROW: Final = -1
_SHIFT: Final = 6
_PAGE: Final = 64
_MASK: Final = 63
_HELD: Final = 64  # The last slot of a page counts its rows.
_EMPTY: Final = vec[i32]([0] * (_PAGE + 1))


@final
class Cursor:
    """The cursor of one lane. `ready` is a heap of offsets that may be available; entries can be stale."""

    def __init__(self, lane: int, priority: int, start: int) -> None:
        self.lane = lane
        self.priority = priority
        self.scan = start
        self.outstanding = 0
        self.ready: list[int] = []
        self._pages: dict[int, vec[i32]] = {}

    def find(self, offset: int) -> int:
        """The row of an outstanding offset, or NO_ROW."""
        page = self._pages.get(offset >> _SHIFT)
        return NO_ROW if page is None else page[offset & _MASK] - 1

    def hold(self, offset: int, row: int) -> None:
        """Make the offset outstanding. Offsets arrive in ascending order."""
        page = self._pages.get(offset >> _SHIFT)
        if page is None:
            page = _EMPTY[:]
            self._pages[offset >> _SHIFT] = page
        assert page[offset & _MASK] == 0
        page[offset & _MASK] = row + 1
        page[_HELD] += 1
        self.outstanding += 1

    def release(self, offset: int) -> None:
        """Make the offset settled."""
        page = self._pages[offset >> _SHIFT]
        assert page[offset & _MASK] != 0
        self.outstanding -= 1
        if page[_HELD] == 1:
            del self._pages[offset >> _SHIFT]
            if not self._pages:
                self._pages = {}  # An emptied dict keeps its memory.
        else:
            page[offset & _MASK] = 0
            page[_HELD] -= 1

    def is_settled(self, offset: int) -> bool:
        """True if the scan has passed this offset and it is not outstanding."""
        return offset < self.scan and self.find(offset) == NO_ROW

    def floor(self) -> int:
        """The lowest outstanding offset, or the scan: everything below is settled."""
        for number, page in self._pages.items():
            for slot in range(_PAGE):
                if page[slot]:
                    return (number << _SHIFT) + slot
        return self.scan

    def live_between(self, start: int, end: int) -> list[int]:
        """The outstanding offsets from `start` to `end` (exclusive), in order."""
        found: list[int] = []
        first = start >> _SHIFT
        last = (end - 1) >> _SHIFT
        pages = self._pages
        numbers = sorted(pages) if len(pages) < last - first else [n for n in range(first, last + 1) if n in pages]
        for number in numbers:
            if number < first or number > last:
                continue
            page = pages[number]
            for slot in range(_PAGE):
                offset = (number << _SHIFT) + slot
                if page[slot] and start <= offset < end:
                    found.append(offset)
        return found

    def dead_ranges(self, start: int, end: int) -> list[tuple[int, int]]:
        """The settled ranges from `start` to `end`, each with an exclusive end, in order."""
        end = min(end, self.scan)
        ranges: list[tuple[int, int]] = []
        for offset in self.live_between(start, end):
            if offset > start:
                ranges.append((start, offset))
            start = offset + 1
        if start < end:
            ranges.append((start, end))
        return ranges

    def clear(self) -> None:
        """Drop all outstanding offsets."""
        self.outstanding = 0
        self.ready = []
        self._pages = {}

    def rebuild_ready(self, offsets: list[int]) -> None:
        """Replace the heap of available offsets."""
        heapify(offsets)
        self.ready = offsets

"""Sparse positions of a replica's entries in the write-ahead log.

A search for an entry starts at the last position that is not after it. Truncated entries are still in the log, with an
older epoch than the entries that took their indexes.
"""

from __future__ import annotations

from bisect import bisect_right
from typing import Final, final

INTERVAL_BYTES: Final = 256 * 1024


@final
class Positions:
    """Ascending pairs (index, position). A pair says: every entry after `index` stands at or after `position`."""

    def __init__(self) -> None:
        self._indexes: list[int] = []
        self._positions: list[int] = []

    def note(self, index: int, position: int, interval_bytes: int = INTERVAL_BYTES) -> None:
        """Note that the log had `index` entries when it ended at `position`."""
        if self._positions and (position - self._positions[-1] < interval_bytes or self._indexes[-1] == index):
            return
        self._indexes.append(index)
        self._positions.append(position)

    def place_for(self, index: int) -> tuple[int, int] | None:
        """The position to read from for the entry `index`, as (number of entries before it, position)."""
        at = bisect_right(self._indexes, index - 1)
        if at == 0:
            return None
        return self._indexes[at - 1], self._positions[at - 1]

    def cut_behind(self, index: int, position: int) -> None:
        """Note that the log was truncated to `index` when it ended at `position`."""
        at = bisect_right(self._indexes, index - 1)
        del self._indexes[at:]
        del self._positions[at:]
        self._indexes.append(index)
        self._positions.append(position)

    def release_before(self, position: int) -> None:
        """Drop the positions before `position`, where the log now starts."""
        at = 0
        while at < len(self._positions) and self._positions[at] < position:
            at += 1
        del self._indexes[:at]
        del self._positions[:at]

    def has(self, index: int) -> bool:
        """True if there is a position for this entry."""
        return self.place_for(index) is not None

    @property
    def first(self) -> int:
        """Entries after this index can be found; -1 for none."""
        return self._indexes[0] if self._indexes else -1

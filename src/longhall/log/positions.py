"""Where in the write-ahead log the entries of a member stand: a place now and then, ascending.

Whoever looks for an entry starts to read at the last place that is not behind it. Entries that were cut off stand in
the log as well, with an older epoch than the ones that took their numbers.
"""

from __future__ import annotations

from bisect import bisect_right
from typing import Final, final

INTERVAL_BYTES: Final = 256 * 1024


@final
class Positions:
    """See the module. A place (index, position) says: every entry behind `index` stands at or behind `position`."""

    def __init__(self) -> None:
        self._indexes: list[int] = []
        self._positions: list[int] = []

    def note(self, index: int, position: int, interval_bytes: int = INTERVAL_BYTES) -> None:
        """The log had `index` entries when it ended at `position`."""
        if self._positions and (position - self._positions[-1] < interval_bytes or self._indexes[-1] == index):
            return
        self._indexes.append(index)
        self._positions.append(position)

    def place_for(self, index: int) -> tuple[int, int] | None:
        """Where to read from for the entry `index`: how many entries stand before that place, and the place."""
        at = bisect_right(self._indexes, index - 1)
        if at == 0:
            return None
        return self._indexes[at - 1], self._positions[at - 1]

    def cut_behind(self, index: int, position: int) -> None:
        """The log was cut back to `index` when it ended at `position`."""
        at = bisect_right(self._indexes, index - 1)
        del self._indexes[at:]
        del self._positions[at:]
        self._indexes.append(index)
        self._positions.append(position)

    def release_before(self, position: int) -> None:
        """What stands before `position` is gone."""
        at = 0
        while at < len(self._positions) and self._positions[at] < position:
            at += 1
        del self._indexes[:at]
        del self._positions[:at]

    def has(self, index: int) -> bool:
        """Whether there is a place for this entry."""
        return self.place_for(index) is not None

    @property
    def first(self) -> int:
        """Entries behind this index can be found; -1 for none."""
        return self._indexes[0] if self._indexes else -1

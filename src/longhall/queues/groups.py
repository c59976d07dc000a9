"""Groups of one lane that have something outstanding, and nothing else: a million groups that wait cost nothing.

A group knows its rows as a chain in the order of their offsets, and how many of them are hidden. In a FIFO queue it
is free when none is, and then its chain from the head on is what goes out, in that order; a message of the scan may
follow only when the whole chain goes out with it. Standard queues use the hidden counts to be fair.
This module refuses to know deadlines, offsets and which queue is which.
"""

from __future__ import annotations

from array import array
from typing import Final, final

from longhall.queues.leases import Leases

NO_GROUP: Final = -1


@final
class Groups:
    """See the module. A group is a small integer while it has rows. Its public fields are for reading."""

    def __init__(self) -> None:
        self.name_of: list[str] = []
        self.rows: array[int] = array("i")
        self.hidden: array[int] = array("i")
        self.head: array[int] = array("i")
        self._tail: array[int] = array("i")
        self._numbers: dict[str, int] = {}
        self._free: array[int] = array("i")

    def __len__(self) -> int:
        return len(self._numbers)

    def find(self, name: str) -> int:
        """The group of this name, or NO_GROUP if nothing of it is outstanding."""
        return self._numbers.get(name, NO_GROUP)

    def join(self, leases: Leases, row: int, name: str) -> None:
        """A row, not hidden, becomes the last one of its group."""
        group = self._numbers.get(name, NO_GROUP)
        if group == NO_GROUP:
            group = self._take(name)
        tail = self._tail[group]
        leases.group[row] = group
        leases.below[row] = NO_GROUP
        leases.above[row] = tail
        if tail >= 0:
            leases.below[tail] = row
        else:
            self.head[group] = row
        self._tail[group] = row
        self.rows[group] += 1

    def leave(self, leases: Leases, row: int) -> int:
        """A row, not hidden, leaves; returns its group, or NO_GROUP if that is gone with it."""
        group = leases.group[row]
        above = leases.above[row]
        below = leases.below[row]
        if above >= 0:
            leases.below[above] = below
        else:
            self.head[group] = below
        if below >= 0:
            leases.above[below] = above
        else:
            self._tail[group] = above
        leases.group[row] = NO_GROUP
        self.rows[group] -= 1
        if self.rows[group]:
            return group
        del self._numbers[self.name_of[group]]
        self.name_of[group] = ""
        self._free.append(group)
        return NO_GROUP

    def hide(self, group: int) -> None:
        """One more of its rows is hidden."""
        self.hidden[group] += 1

    def reveal(self, group: int) -> None:
        """One of its rows less is hidden."""
        self.hidden[group] -= 1

    def heads(self, leases: Leases) -> list[int]:
        """The offset of the first row of every group that is free."""
        return [leases.offset[self.head[group]] for group in self._numbers.values() if self.hidden[group] == 0]

    def members(self, leases: Leases) -> list[list[object]]:
        """Each group with its rows, in order."""
        found: list[list[object]] = []
        for name, group in self._numbers.items():
            rows: list[int] = []
            row = self.head[group]
            while row >= 0:
                rows.append(row)
                row = leases.below[row]
            found.append([name, rows])
        return found

    def _take(self, name: str) -> int:
        if self._free:
            group = self._free.pop()
            self.name_of[group] = name
        else:
            group = len(self.name_of)
            self.name_of.append(name)
            for column in (self.rows, self.hidden, self.head, self._tail):
                column.append(0)
        self.rows[group] = self.hidden[group] = 0
        self.head[group] = self._tail[group] = NO_GROUP
        self._numbers[name] = group
        return group

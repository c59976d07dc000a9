"""The message groups of one lane that have outstanding messages. Groups without any cost no memory.

A group has a chain of its rows in the order of offsets, and the number of hidden rows (leased or in a retry delay). In
a FIFO queue the messages of a group are delivered from the head of the chain on, up to the first hidden one, and a
message of the scan may follow only if the whole chain is delivered with it. Standard queues use the hidden counts for
fairness. This module knows no deadlines and no queues.
"""

from __future__ import annotations

from array import array
from typing import Final, final

from longhall.queues.leases import READY, Leases

NO_GROUP: Final = -1


@final
class Groups:
    """The groups of one lane. A group is a small integer while it has rows. Public fields are read-only for others."""

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
        """The group of this name, or NO_GROUP if it has no outstanding messages."""
        return self._numbers.get(name, NO_GROUP)

    def join(self, leases: Leases, row: int, name: str) -> None:
        """Append a row that is not hidden to its group."""
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
        """Remove a row that is not hidden. Returns its group, or NO_GROUP if the group is empty now."""
        group: int = leases.group[row]
        above: int = leases.above[row]
        below: int = leases.below[row]
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
        """Count one more hidden row."""
        self.hidden[group] += 1

    def reveal(self, group: int) -> None:
        """Count one hidden row less."""
        self.hidden[group] -= 1

    def heads(self, leases: Leases) -> list[int]:
        """The offset of the first row of every group in which that row is READY."""
        heads = [self.head[group] for group in self._numbers.values()]
        return [int(leases.offset[row]) for row in heads if leases.state[row] == READY]

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

"""Marks: barriers that keep the order of FIFO groups while the number of partitions of a queue changes.

When a queue grows or shrinks, later messages of a group can go to another log. A mark stores the end of each log at
that time. A message above a mark is delivered only when no message of its group below the mark is left in another log.
Two rules ensure this, without memory for waiting messages:

    scan    no scan moves past a mark before the scans of all logs have reached it
    group   above a mark a group waits while one of its messages below the mark is outstanding in another log

The rules do not depend on who wrote the messages or how the log was chosen. Marks are in the order of time, so a
message waits only for older ones and there is no deadlock. The queue bounds the number of marks.

Offsets do not rise within a group that changes its log, but sequence numbers do: above a mark they continue from the
greatest below it (its `base`), in any log. Without marks the sequence number is the offset.
"""

from __future__ import annotations

from typing import Any, Final, final

from longhall.queues.lanes import Lane

NO_LIMIT: Final = 1 << 62
MARKS_MAX: Final = 256  # Of one queue.


@final
class Marks:
    """The marks of one queue, oldest first. A log that a mark does not name is newer: all of it is above the mark."""

    def __init__(self) -> None:
        self._ends: list[dict[int, int]] = []
        self._bases: list[int] = []
        self.met = 0  # The number of oldest marks that every scan has reached.
        self.waits = False  # True if some marks are not reached by all scans.
        self._has_news = False

    def __len__(self) -> int:
        return len(self._ends)

    def add(self, ends: list[tuple[int, int]], base: int, forget: int) -> None:
        """Add a mark: the ends by log, and the next sequence number. Drops the `forget` oldest marks."""
        self._ends = [*self._ends[forget:], dict(ends)]
        self._bases = [*self._bases[forget:], base]
        self.met = max(0, self.met - forget)
        self.waits = True

    def advance(self, lanes: dict[int, Lane]) -> bool:
        """Check the marks after a scan has moved; True if all scans have reached another one."""
        before = self.met
        while self.met < len(self._ends) and _is_reached(self._ends[self.met], lanes):
            self.met += 1
        self.waits = self.met < len(self._ends)
        if self.met == before:
            return False
        self._has_news = True
        return True

    def has_advanced(self) -> bool:
        """True if further marks were reached since the last call."""
        has_news, self._has_news = self._has_news, False
        return has_news

    def recheck(self, lanes: dict[int, Lane]) -> None:
        """Check all marks again after a scan has moved back."""
        self.met = 0
        self.advance(lanes)

    def limit(self, lane_id: int) -> int:
        """The offset up to which the scan of this log may move now."""
        if self.met == len(self._ends):
            return NO_LIMIT
        return self._ends[self.met].get(lane_id, 0)

    def below(self, lane_id: int, offset: int) -> dict[int, int]:
        """The ends of the logs at the last mark below this message; empty if there is none."""
        for ends in reversed(self._ends):
            if ends.get(lane_id, 0) <= offset:
                return ends
        return {}

    def sequence(self, lane_id: int, offset: int) -> int:
        """The sequence number of a message: it rises within a group, over all logs."""
        at = len(self._ends) - 1
        while at >= 0:
            end = self._ends[at].get(lane_id, 0)
            if end <= offset:
                return self._bases[at] + offset - end
            at -= 1
        return offset

    def next_sequence(self, ends: list[tuple[int, int]]) -> int:
        """A sequence number above those of all messages below these ends."""
        above = self._bases[-1] if self._bases else 0
        for lane_id, end in ends:
            if end:
                above = max(above, self.sequence(lane_id, end - 1) + 1)
        return above

    def done(self, lanes: dict[int, Lane]) -> int:
        """The number of oldest marks below which everything is settled."""
        count = 0
        while count < self.met and _is_drained(self._ends[count], lanes):
            count += 1
        return count

    def moments(self) -> list[tuple[list[tuple[int, int]], int]]:
        """Ends and base of each mark, as `add` takes them."""
        return [(list(ends.items()), base) for ends, base in zip(self._ends, self._bases, strict=True)]

    def snapshot(self) -> list[list[Any]]:
        """Builtins only."""
        return [[base, [[lane, end] for lane, end in ends]] for ends, base in self.moments()]

    def restore(self, state: list[list[Any]], lanes: dict[int, Lane]) -> None:
        """Take the state of a `snapshot`."""
        self._ends = []
        self._bases = []
        for base, ends in state:
            self._ends.append({int(lane): int(end) for lane, end in ends})
            self._bases.append(int(base))
        self.recheck(lanes)


def _is_reached(ends: dict[int, int], lanes: dict[int, Lane]) -> bool:
    for lane_id, end in ends.items():
        lane = lanes.get(lane_id)
        if lane is not None and lane.cursor.scan < end:
            return False
    return True


def _is_drained(ends: dict[int, int], lanes: dict[int, Lane]) -> bool:
    for lane_id, end in ends.items():
        lane = lanes.get(lane_id)
        if lane is not None and lane.cursor.floor() < end:
            return False
    return True

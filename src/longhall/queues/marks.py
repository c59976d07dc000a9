"""Moments at which the messages of a FIFO queue began to go to other logs, so that no group overtakes itself.

A queue in parts grows and shrinks, and a group that went to one log goes to another from then on. A mark is such a
moment: where each log ended. What stands above a mark goes out only when nothing of its group that stands below it is
left in any other log. That takes two rules, and no memory of waiting messages:

    scan    no scan moves past a mark before the scans of all logs have reached it
    group   above a mark a group waits while anything of it below the mark is outstanding in another log

Whoever wrote the messages and however it chose the log plays no part. Marks are in the order of time, so what waits
does so for something older, and nothing waits in a circle. How many there may be is bounded by whoever makes them.

Offsets do not rise within a group that goes to another log, but sequence numbers do: above a mark they go on from the
greatest of those below it (its `base`), whichever log it was in. Without marks they are the offsets.
"""

from __future__ import annotations

from typing import Any, Final, final

from longhall.queues.lanes import Lane

NO_LIMIT: Final = 1 << 62
MARKS_MAX: Final = 256  # Of one queue.


@final
class Marks:
    """See the module. A log that is not named in a mark came later: all of it stands above."""

    def __init__(self) -> None:
        self._ends: list[dict[int, int]] = []
        self._bases: list[int] = []
        self.met = 0  # So many of them, the oldest, have been reached by every scan.
        self.waits = False  # Whether there are others.
        self._has_news = False

    def __len__(self) -> int:
        return len(self._ends)

    def add(self, ends: list[tuple[int, int]], base: int, forget: int) -> None:
        """This moment, by log, and the sequence number of what comes next; so many of the oldest are not needed."""
        self._ends = [*self._ends[forget:], dict(ends)]
        self._bases = [*self._bases[forget:], base]
        self.met = max(0, self.met - forget)
        self.waits = True

    def advance(self, lanes: dict[int, Lane]) -> bool:
        """The scans may have moved on: whether another mark has been reached by all of them."""
        before = self.met
        while self.met < len(self._ends) and _is_reached(self._ends[self.met], lanes):
            self.met += 1
        self.waits = self.met < len(self._ends)
        if self.met == before:
            return False
        self._has_news = True
        return True

    def has_advanced(self) -> bool:
        """Whether more of them have been reached since this was asked last."""
        has_news, self._has_news = self._has_news, False
        return has_news

    def again(self, lanes: dict[int, Lane]) -> None:
        """A scan has moved back."""
        self.met = 0
        self.advance(lanes)

    def limit(self, lane_id: int) -> int:
        """The offset that the scan of this log must not pass now."""
        if self.met == len(self._ends):
            return NO_LIMIT
        return self._ends[self.met].get(lane_id, 0)

    def below(self, lane_id: int, offset: int) -> dict[int, int]:
        """Where the logs ended at the last mark below this message; empty if there was none."""
        for ends in reversed(self._ends):
            if ends.get(lane_id, 0) <= offset:
                return ends
        return {}

    def sequence(self, lane_id: int, offset: int) -> int:
        """The number of this message: it rises within a group, whichever logs that went to."""
        at = len(self._ends) - 1
        while at >= 0:
            end = self._ends[at].get(lane_id, 0)
            if end <= offset:
                return self._bases[at] + offset - end
            at -= 1
        return offset

    def next_sequence(self, ends: list[tuple[int, int]]) -> int:
        """A number above those of all messages below these ends."""
        above = self._bases[-1] if self._bases else 0
        for lane_id, end in ends:
            if end:
                above = max(above, self.sequence(lane_id, end - 1) + 1)
        return above

    def done(self, lanes: dict[int, Lane]) -> int:
        """How many of the oldest have nothing left below them."""
        count = 0
        while count < self.met and _is_drained(self._ends[count], lanes):
            count += 1
        return count

    def moments(self) -> list[tuple[list[tuple[int, int]], int]]:
        """Each with its ends and its base, as `add` takes them."""
        return [(list(ends.items()), base) for ends, base in zip(self._ends, self._bases, strict=True)]

    def snapshot(self) -> list[list[Any]]:
        """Builtins only."""
        return [[base, [[lane, end] for lane, end in ends]] for ends, base in self.moments()]

    def restore(self, state: list[list[Any]], lanes: dict[int, Lane]) -> None:
        """Become what `snapshot` described."""
        self._ends = []
        self._bases = []
        for base, ends in state:
            self._ends.append({int(lane): int(end) for lane, end in ends})
            self._bases.append(int(base))
        self.again(lanes)


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

"""The oracle of forks: a fork delivers what was acknowledged before it, from its offset on, and nothing below."""

from __future__ import annotations

from typing import final

from simulation.checkers.violation import demand


@final
class ForkOracle:
    """The messages of one log with one partition, by offset, and what the current fork has delivered."""

    def __init__(self) -> None:
        self.sends = 0
        self.forks = 0
        self.delivered = 0
        self.acknowledged: dict[int, str] = {}  # By offset.
        self._start = 0
        self._expected: set[int] = set()
        self._settled: set[int] = set()

    def forking(self, start: int) -> None:
        """A fork from this offset on is about to be made. What was acknowledged by now is in the log before it."""
        self.forks += 1
        self._start = start
        self._expected = {offset for offset in self.acknowledged if offset >= start}
        self._settled = set()

    def received(self, offset: int, key: str) -> None:
        """The fork delivered a message."""
        self.delivered += 1
        demand(offset >= self._start, f"a fork from offset {self._start} on delivered offset {offset}")
        demand(offset not in self._settled, f"offset {offset} was settled, and the fork delivered it again")
        known = self.acknowledged.get(offset, key)
        demand(known == key, f"offset {offset} has {key}, and {known} was acknowledged there")
        self._expected.discard(offset)

    def settled(self, offset: int) -> None:
        """A settle was acknowledged."""
        self._settled.add(offset)

    def left(self) -> int:
        """How many messages the fork still has to deliver."""
        return len(self._expected)

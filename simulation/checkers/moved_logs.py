"""The oracle of partitions that move: a log is one sequence of messages, whichever group has it.

An acknowledged message is at its offset for ever. An offset never has two messages, and the log has no gap. A message
that an idempotent producer sent is there once, and its messages are in their order.
"""

from __future__ import annotations

from typing import final

from simulation.checkers.violation import demand


@final
class MovedLogOracle:
    """What is known of one partition."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.sends = 0
        self.acknowledged: dict[int, str] = {}  # By offset.
        self._seen: dict[int, str] = {}
        self._reached = 0

    def sent(self, key: str, offset: int) -> None:
        """The message was acknowledged with this offset."""
        other = self.acknowledged.setdefault(offset, key)
        demand(other == key, f"{self.name}: offset {offset} was acknowledged for {other} and for {key}")
        self._see(offset, key)

    def read(self, rows: list[tuple[int, str]], end: int) -> None:
        """A reader got these messages, and the end of the log that readers see."""
        demand(end >= self._reached, f"{self.name}: readers saw the end {self._reached}, and later {end}")
        self._reached = max(self._reached, end)
        for at, (offset, key) in enumerate(rows):
            self._see(offset, key)
            demand(at == 0 or offset == rows[at - 1][0] + 1, f"{self.name}: there is a gap before offset {offset}")

    def account(self, rows: list[tuple[int, str]]) -> None:
        """At the end: all messages of the log, from its start."""
        self.read(rows, len(rows))
        demand(not rows or rows[0][0] == 0, f"{self.name} begins at {rows[:1]}")
        found = dict(rows)
        for offset, key in self.acknowledged.items():
            demand(found.get(offset) == key, f"{self.name}: {key} was acknowledged at {offset}: {found.get(offset)}")
        keys = [key for _, key in rows]
        demand(len(set(keys)) == len(keys), f"{self.name}: a message is there twice")
        last: dict[str, int] = {}
        for key in keys:
            writer, _, number = key.rpartition("-")
            demand(last.get(writer, -1) < int(number), f"{self.name}: {key} comes after {last.get(writer)}")
            last[writer] = int(number)

    def _see(self, offset: int, key: str) -> None:
        other = self._seen.setdefault(offset, key)
        demand(other == key, f"{self.name}: offset {offset} had {other}, and now has {key}")

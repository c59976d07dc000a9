"""Messages of open transactions in a queue: they count against its limits, and are subtracted if the transaction
aborts.

The module counts messages and bytes by lane and producer until the producer's transaction marker in that lane. The
number of entries is the number of open transactions of the lanes.
"""

from __future__ import annotations

from typing import final


@final
class UncommittedMessages:
    """Uncommitted messages and bytes of one queue, by lane and producer."""

    def __init__(self) -> None:
        self._held: dict[tuple[int, int], tuple[int, int]] = {}  # Messages and bytes, by lane and producer.

    def __len__(self) -> int:
        return len(self._held)

    def sent(self, lane: int, producer: int, messages: int, bytes: int) -> None:
        """Count an appended batch of an open transaction."""
        before = self._held.get((lane, producer), (0, 0))
        self._held[lane, producer] = (before[0] + messages, before[1] + bytes)

    def ended(self, lane: int, producer: int) -> tuple[int, int]:
        """Remove an ended transaction; returns its messages and bytes in the lane."""
        return self._held.pop((lane, producer), (0, 0))

    def forget(self, lane: int) -> None:
        """Drop the counts of a purged lane."""
        for key in [key for key in self._held if key[0] == lane]:
            del self._held[key]

    def snapshot(self) -> list[list[int]]:
        """Builtins only."""
        return [[lane, producer, held[0], held[1]] for (lane, producer), held in self._held.items()]

    def restore(self, entries: list[list[int]]) -> None:
        """Take the state of a `snapshot`."""
        self._held = {(lane, producer): (messages, bytes) for lane, producer, messages, bytes in entries}

"""What transactions that are still open have put into a queue: it is counted, and taken back if one is aborted.

A message of an open transaction takes room like any other, because it is in the queue as soon as the transaction is
committed. This knows how many there are and never which: by lane and producer, until the marker of that producer in
that lane. There are as many entries as the lanes have open transactions.
"""

from __future__ import annotations

from typing import final


@final
class UncommittedMessages:
    """See the module."""

    def __init__(self) -> None:
        self._held: dict[tuple[int, int], tuple[int, int]] = {}  # Messages and bytes, by lane and producer.

    def __len__(self) -> int:
        return len(self._held)

    def sent(self, lane: int, producer: int, messages: int, bytes: int) -> None:
        """A batch of an open transaction was appended."""
        before = self._held.get((lane, producer), (0, 0))
        self._held[lane, producer] = (before[0] + messages, before[1] + bytes)

    def ended(self, lane: int, producer: int) -> tuple[int, int]:
        """The transaction is over: how many messages and bytes it had there."""
        return self._held.pop((lane, producer), (0, 0))

    def forget(self, lane: int) -> None:
        """What was there has gone, whatever becomes of its transactions."""
        for key in [key for key in self._held if key[0] == lane]:
            del self._held[key]

    def snapshot(self) -> list[list[int]]:
        """Builtins only."""
        return [[lane, producer, held[0], held[1]] for (lane, producer), held in self._held.items()]

    def restore(self, entries: list[list[int]]) -> None:
        """Become what `snapshot` described."""
        self._held = {(lane, producer): (messages, bytes) for lane, producer, messages, bytes in entries}

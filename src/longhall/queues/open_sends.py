"""Deduplication ids of open transactions: whether a later send is a repeat is known when the transaction ends.

The window has them from the append on, like those of other sends. A commit makes them final; an abort removes them from
the window, because nobody will receive the messages. While the transaction is open, a send with such an id by another
producer is refused and retried; one by the same producer is a repeat, because both have the same fate.

Bounded by `OPEN_MAX` ids a queue: the broker refuses more. The state is a fold over batches and markers, and is part of
the queue's snapshot.
"""

from __future__ import annotations

from typing import Any, Final, final

OPEN_MAX: Final = 100_000

NO_PRODUCER: Final = -1


@final
class OpenSends:
    """The fingerprints of one queue that open transactions have sent, by lane and producer."""

    def __init__(self) -> None:
        self._producer_of: dict[bytes, int] = {}
        self._marks: dict[tuple[int, int], list[bytes]] = {}

    def __len__(self) -> int:
        return len(self._producer_of)

    def is_open(self, mark: bytes, producer: int = NO_PRODUCER) -> bool:
        """True if an open transaction of another producer has sent it."""
        found = self._producer_of.get(mark)
        return found is not None and found != producer

    def sent(self, lane: int, producer: int, mark: bytes) -> None:
        """A batch of an open transaction was appended."""
        self._producer_of[mark] = producer
        self._marks.setdefault((lane, producer), []).append(mark)

    def ended(self, lane: int, producer: int) -> list[bytes]:
        """Remove an ended transaction; returns its fingerprints."""
        marks = self._marks.pop((lane, producer), [])
        for mark in marks:
            self._producer_of.pop(mark, None)
        return marks

    def snapshot(self) -> list[list[Any]]:
        """Builtins only."""
        return [[lane, producer, list(marks)] for (lane, producer), marks in self._marks.items()]

    def restore(self, entries: list[list[Any]]) -> None:
        """Take the state of a `snapshot`."""
        self._producer_of = {}
        self._marks = {}
        for lane, producer, marks in entries:
            for mark in marks:
                self.sent(lane, producer, bytes(mark))

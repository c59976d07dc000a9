"""What a receiver with a filter asks for, and how far it has looked.

What it does not want stays for others. So the same messages would be looked at with every request; a receiver_filter
remembers of each lane that everything available was looked at, and then looks at what becomes available anew. A look is
cut into steps by whoever asks; `rows` is what is left of it. What is looked at ahead of the scan is passed and then
outstanding, which the queue bounds.

Not durable: after a restart everything is looked at once more. It refuses to know what makes a message wanted.
"""

from __future__ import annotations

from longhall.queues.outcomes import Candidate


class ReceiverFilter:
    """See the module. Shared by all receivers of a queue that name the same filter."""

    def __init__(self) -> None:
        self._rows: dict[int, list[int]] = {}  # By lane: offsets to look at, the next one last.
        self._began: dict[int, int] = {}  # By lane: its count of offers when the look began,
        self._checked: dict[int, int] = {}  # and when the last one that came to its end did.
        self.done: list[int] = []  # Lanes in which nothing available is left to look at, in this request.

    def wants(self, lane: int, candidate: Candidate) -> bool:
        """Whether this is one to give out."""
        raise NotImplementedError

    def checked(self, lane: int) -> int:
        """How often a lane had offered when everything in it was looked at; -1 if it never was."""
        return self._checked.get(lane, -1)

    def rows(self, lane: int, offers: int, ready: list[int], recent: list[int] | None) -> list[int]:
        """What is to be looked at of a lane that has offered so often and has these available. Take from its end.

        `recent` is what was offered since it was `checked`, if that is known.
        """
        rows = self._rows.get(lane)
        if rows:
            return rows
        self._began[lane] = offers
        rows = sorted(set(ready if recent is None else recent), reverse=True)
        self._rows[lane] = rows
        return rows

    def looked(self, lane: int) -> None:
        """There is nothing more of `rows`."""
        self._checked[lane] = self._began[lane]

    def passed(self, lane: int, offers: int) -> None:
        """What this request passed in a lane of `done` has been applied: it was looked at as well."""
        self._checked[lane] = offers
        self._began[lane] = offers

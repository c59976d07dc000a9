"""The scan state of a receiver with a filter: which available messages it has examined.

Messages that do not match stay for other receivers. To avoid examining them with every request, the state records for
each lane that all available messages were examined; then only newly offered ones are. One pass over a lane can take
several requests; `rows` is the rest of it. Messages examined ahead of the scan are passed and become outstanding, which
the queue bounds.

The state is not durable: after a restart everything is examined again. Subclasses define which messages match.
"""

from __future__ import annotations

from longhall.queues.outcomes import Candidate


class ReceiverFilter:
    """The scan state of one filter, shared by all receivers of a queue with the same filter text."""

    def __init__(self) -> None:
        self._rows: dict[int, list[int]] = {}  # By lane: offsets to examine, the next one last.
        self._began: dict[int, int] = {}  # By lane: its offer count when the pass began,
        self._checked: dict[int, int] = {}  # and when the last complete pass began.
        self.done: list[int] = []  # Lanes whose available messages are all examined, in this request.

    def wants(self, lane: int, candidate: Candidate) -> bool:
        """True if the message matches."""
        raise NotImplementedError

    def checked(self, lane: int) -> int:
        """The offer count of a lane at its last complete pass; -1 if there was none."""
        return self._checked.get(lane, -1)

    def rows(self, lane: int, offers: int, ready: list[int], recent: list[int] | None) -> list[int]:
        """The offsets to examine in a lane with this offer count and these available offsets; taken from the end.

        `recent` are the offsets offered since `checked`, if they are known.
        """
        rows = self._rows.get(lane)
        if rows:
            return rows
        self._began[lane] = offers
        rows = sorted(set(ready if recent is None else recent), reverse=True)
        self._rows[lane] = rows
        return rows

    def looked(self, lane: int) -> None:
        """Note that a pass is complete."""
        self._checked[lane] = self._began[lane]

    def passed(self, lane: int, offers: int) -> None:
        """Note that the events of a request are applied: its passed messages are examined too."""
        self._checked[lane] = offers
        self._began[lane] = offers

"""What writers tried to put into a log, and what became of it.

    open           sent, nothing heard yet
    acknowledged   the hall said at which offset it stands: from now on it must stand there
    refused        the hall said no: it must never be seen
    unknown        no answer: it may stand somewhere, once, or not at all

Every value is sent under one name only, so a value that is seen twice is a duplicate.
"""

from __future__ import annotations

import enum
from typing import NamedTuple, final


class Place(NamedTuple):
    """One partition."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


class Outcome(enum.Enum):
    """See the module."""

    OPEN = "open"
    ACKNOWLEDGED = "acknowledged"
    REFUSED = "refused"
    UNKNOWN = "unknown"


@final
class Transaction:
    """Sends that stand or fall together. Its outcome is that of its end: ACKNOWLEDGED with `commit` as asked."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.outcome = Outcome.OPEN
        self.commit = False
        self.sends: list[Send] = []

    @property
    def committed(self) -> bool:
        return self.outcome is Outcome.ACKNOWLEDGED and self.commit

    @property
    def aborted(self) -> bool:
        """Nothing of it may be seen: it was aborted, or nobody ever asked to commit it."""
        return not self.commit and self.outcome is not Outcome.OPEN


@final
class Send:
    """One batch on its way. `number` counts the sends of a writer whose order is promised; -1 if it is not."""

    def __init__(
        self, place: Place, writer: str, number: int, values: list[bytes], transaction: Transaction | None
    ) -> None:
        self.place = place
        self.writer = writer
        self.number = number
        self.values = values
        self.transaction = transaction
        self.outcome = Outcome.OPEN
        self.offset = -1
        self.timestamp_ms = 0

    def __str__(self) -> str:
        at = f" at {self.offset}" if self.offset >= 0 else ""
        name = self.values[0].partition(b":")[0].decode(errors="replace")
        return f"{name} ({self.outcome.value}{at}) in {self.place}"

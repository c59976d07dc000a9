"""The batches that writers sent to a log, and their outcomes.

open           sent, no answer yet
acknowledged   the answer named an offset: from now on the batch must be there
refused        the answer was an error: the batch must never be seen
unknown        no answer: the batch may be in the log, once, or not at all

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
    """The outcome of a send or of a transaction's end, as in the table of the module."""

    OPEN = "open"
    ACKNOWLEDGED = "acknowledged"
    REFUSED = "refused"
    UNKNOWN = "unknown"


@final
class Transaction:
    """Sends that become visible together or not at all.

    The outcome is that of its end: ACKNOWLEDGED means committed or aborted, as `commit` says.
    """

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
        """True if nothing of it may be seen: it was aborted, or its commit was never requested."""
        return not self.commit and self.outcome is not Outcome.OPEN


@final
class Send:
    """One batch that a writer sends. `number` counts the sends of a writer whose order is guaranteed; -1 for others."""

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

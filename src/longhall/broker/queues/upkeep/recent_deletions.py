"""Names of queues that were deleted a moment ago: a door may want them not to be used again at once.

Held in memory by the leader alone: after a restart or an election they are free, which hurts no one.
"""

from __future__ import annotations

from typing import Final, final

from longhall.errors import Code, LonghallError
from longhall.world.ports import Clock

NAMES_MAX: Final = 10_000


@final
class RecentDeletions:
    """The times of deletions, by queue; the oldest are dropped for new ones."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._deleted_ms: dict[str, int] = {}  # The oldest first.

    def add(self, name: str) -> None:
        """The queue of this name is deleted."""
        self._deleted_ms.pop(name, None)
        if len(self._deleted_ms) >= NAMES_MAX:
            del self._deleted_ms[next(iter(self._deleted_ms))]
        self._deleted_ms[name] = self._clock.monotonic_ms()

    def check(self, name: str, before_ms: int) -> None:
        """QUEUE_DELETED_RECENTLY if a queue of this name was deleted less than so long ago."""
        at_ms = self._deleted_ms.get(name)
        if at_ms is not None and self._clock.monotonic_ms() - at_ms < before_ms:
            said = f"A queue '{name}' was deleted less than {before_ms // 1000} s ago."
            raise LonghallError(Code.QUEUE_DELETED_RECENTLY, said)

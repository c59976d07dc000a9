"""Many deadlines in one heap, most of which move before they are due.

A timer that moves later keeps its heap entry, which is reinserted when it surfaces, so a heartbeat costs one
assignment. Nothing here reads a clock: `due` gets the time.
"""

from __future__ import annotations

import heapq
from typing import Final, final

NEVER: Final = -1

_REBUILD_SLACK: Final = 1024


@final
class Timer:
    """One deadline. `owner`, `kind` and `key` are for its user."""

    __slots__ = ("due_ms", "key", "kind", "owner", "queued_ms")

    def __init__(self, owner: object, kind: int, key: str = "") -> None:
        self.owner = owner
        self.kind = kind
        self.key = key
        self.due_ms = NEVER
        self.queued_ms = NEVER  # The valid heap entry; others of this timer are stale.


@final
class Timers:
    """The heap. Stale entries are dropped when they surface or when they outnumber the valid ones."""

    def __init__(self) -> None:
        self._heap: list[tuple[int, int, Timer]] = []
        self._count = 0
        self._live_when_rebuilt = 0

    def set(self, timer: Timer, due_ms: int) -> None:
        """Set the timer to `due_ms`, instead of its earlier deadline."""
        timer.due_ms = due_ms
        if timer.queued_ms == NEVER or due_ms < timer.queued_ms:
            self._push(timer)

    def cancel(self, timer: Timer) -> None:
        """Cancel the timer."""
        timer.due_ms = NEVER

    def next_deadline_ms(self) -> int | None:
        """When to call `due` next; possibly too early, never late."""
        heap = self._heap
        while heap and not self._counts(heap[0]):
            self._pop()
        return heap[0][0] if heap else None

    def due(self, now_ms: int) -> Timer | None:
        """Take one timer that is due, or None. Call it until it returns None: timers may be set in between."""
        heap = self._heap
        while heap and heap[0][0] <= now_ms:
            if not self._counts(heap[0]):
                self._pop()
                continue
            timer = self._pop()
            timer.queued_ms = NEVER
            if timer.due_ms <= now_ms:
                timer.due_ms = NEVER
                return timer
            self._push(timer)
        return None

    def _counts(self, entry: tuple[int, int, Timer]) -> bool:
        timer = entry[2]
        if timer.queued_ms != entry[0]:
            return False
        if timer.due_ms == NEVER:
            timer.queued_ms = NEVER
            return False
        return True

    def _pop(self) -> Timer:
        return heapq.heappop(self._heap)[2]

    def _push(self, timer: Timer) -> None:
        if len(self._heap) > 2 * self._live_when_rebuilt + _REBUILD_SLACK:
            self._heap = [entry for entry in self._heap if self._counts(entry)]
            heapq.heapify(self._heap)
            self._live_when_rebuilt = len(self._heap)
        timer.queued_ms = timer.due_ms
        self._count += 1  # Timers with the same deadline are due in the order in which they were set.
        heapq.heappush(self._heap, (timer.due_ms, self._count, timer))

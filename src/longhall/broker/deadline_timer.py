"""One timer for the next of several deadlines in hall time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from typing import Final, final

from longhall.broker.hall_time import HallTime

DELAY_MS_MAX: Final = 60_000


@final
class DeadlineTimer:
    """Calls `tick` at the next deadline, or after `DELAY_MS_MAX`. At most one timer handle is pending."""

    def __init__(self, time: HallTime, tick: Callable[[], None]) -> None:
        self._time = time
        self._tick = tick
        self._handle: asyncio.TimerHandle | None = None

    def arm(self, deadlines_ms: Iterable[int | None]) -> None:
        """Set the timer to the earliest of these deadlines; None means that there is none."""
        self.cancel()
        due = [deadline_ms for deadline_ms in deadlines_ms if deadline_ms is not None]
        if due:
            delay_ms = min(max(min(due) - self._time.now_ms(), 0), DELAY_MS_MAX)
            self._handle = asyncio.get_running_loop().call_later(delay_ms / 1000, self._fire)

    def cancel(self) -> None:
        """Stop the timer."""
        if self._handle is not None:
            self._handle.cancel()
            self._handle = None

    def _fire(self) -> None:
        self._handle = None
        self._tick()

"""The pace of a replay: the original intervals, faster or slower, and a maximum rate.

Pure but for its own count: time is an argument. Message times may go back; a message that is overdue does not wait.
"""

from __future__ import annotations

from typing import Any, Final, final

import numpy as np

ROUNDING_MS: Final = 0.001  # What a sum of seconds may be off by.
WAIT_S_MIN: Final = 0.001
WAIT_S_MAX: Final = 1.0  # One wait; a longer one is several.
STEP_S: Final = 0.1  # With a rate, about so much at a time.


@final
class Pace:
    """`speed` 1 is the original timing, 2 twice as fast, 0 none; `rate` is messages a second, 0 for any."""

    def __init__(self, speed: float = 0.0, rate: float = 0.0) -> None:
        self.speed = speed
        self.rate = rate
        self._began_s: float | None = None
        self._origin_ms = 0
        self._latest_ms = 0
        self._sent = 0

    @property
    def waits(self) -> bool:
        return self.speed > 0 or self.rate > 0

    @property
    def is_timed(self) -> bool:
        return self.speed > 0

    def next(self, times_ms: Any, now_s: float) -> tuple[int, float]:
        """The number of messages with these times that are due now, and how long to wait before the next call."""
        if self._began_s is None:
            self._began_s = now_s
            self._origin_ms = self._latest_ms = int(times_ms[0])
        passed_s = now_s - self._began_s
        count, wait_s = len(times_ms), 0.0
        if self.speed > 0:
            horizon_ms = self._origin_ms + passed_s * 1000 * self.speed + ROUNDING_MS
            # What is older than its forerunner is due with it.
            due_ms = np.maximum.accumulate(np.maximum(times_ms, self._latest_ms))
            count = int(np.searchsorted(due_ms, horizon_ms, side="right"))
            if count < len(times_ms):
                wait_s = max((float(due_ms[count]) - horizon_ms) / 1000 / self.speed, WAIT_S_MIN)
            if count:
                self._latest_ms = int(due_ms[count - 1])
        if self.rate > 0:
            may = int(passed_s * self.rate) + max(1, int(self.rate * STEP_S)) - self._sent
            if may < count:
                count = max(0, may)
                wait_s = max(wait_s if count == 0 else 0.0, STEP_S)
        self._sent += count
        return count, min(wait_s, WAIT_S_MAX)

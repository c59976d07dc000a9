"""Hall time: milliseconds that people would call now, but which never go back and never jump.

It starts at the wall clock, or at the last time found in the log if that is later, and from then on follows the
monotonic clock alone. So a wall clock that is set forward expires nothing early, and one that is set back stamps
nothing twice.
"""

from __future__ import annotations

from typing import final

from longhall.world.ports import Clock


@final
class HallTime:
    """See the module."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._ahead_ms = clock.wall_ms() - clock.monotonic_ms()

    def not_before(self, time_ms: int) -> None:
        """The log knows of this time: go on behind it."""
        self._ahead_ms = max(self._ahead_ms, time_ms - self._clock.monotonic_ms())

    def now_ms(self) -> int:
        """Hall time."""
        return self._clock.monotonic_ms() + self._ahead_ms

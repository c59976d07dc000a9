"""Hall time: milliseconds that people would call now, but which never go back and never jump.

It starts at the wall clock, or at the last time found in the log if that is later, and from then on follows the
monotonic clock alone. So a wall clock that is set forward expires nothing early, and one that is set back stamps
nothing twice.

In a cluster the leader's time counts. Whoever follows keeps it, and not that of its own wall clock, so that nothing
ends early or late when it leads: two hosts may well be an hour apart. What it hears is late by the way of a message, so
the latest of the last while is believed; that while is short, so that clocks of different pace do not part.
"""

from __future__ import annotations

from typing import Final, final

from longhall.world.ports import Clock

NOT_HEARD: Final = -(1 << 62)
BELIEVED_MS: Final = 10_000  # What was heard before the last two of these is forgotten.


@final
class HallTime:
    """See the module."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._ahead_ms = clock.wall_ms() - clock.monotonic_ms()  # Of the monotonic clock.
        self._least_ms = 0  # The latest time that the log knows of.
        self._heard_ms = NOT_HEARD  # How far ahead the leader was at most, since `_since_ms`
        self._before_ms = NOT_HEARD  # and in the while before that.
        self._since_ms = 0

    def not_before(self, time_ms: int) -> None:
        """The log knows of this time: go on behind it."""
        self._least_ms = max(self._least_ms, time_ms)
        self._ahead_ms = max(self._ahead_ms, time_ms - self._clock.monotonic_ms())

    def follow(self, time_ms: int) -> None:
        """The leader says that it was this time a moment ago."""
        now_ms = self._clock.monotonic_ms()
        if now_ms - self._since_ms >= BELIEVED_MS:
            self._before_ms = self._heard_ms
            self._heard_ms = NOT_HEARD
            self._since_ms = now_ms
        self._heard_ms = max(self._heard_ms, time_ms - now_ms)
        self._ahead_ms = max(self._heard_ms, self._before_ms, self._least_ms - now_ms)

    def now_ms(self) -> int:
        """Hall time."""
        return self._clock.monotonic_ms() + self._ahead_ms

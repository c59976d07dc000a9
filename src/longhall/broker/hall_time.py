"""Hall time: wall-clock milliseconds that never go back and never jump.

Hall time starts at the wall clock, or at the last time in the log if that is later, and then follows the monotonic
clock alone. A wall clock that is set forward expires nothing early, and one that is set back repeats no timestamp.

In a cluster followers use the leader's time instead of their wall clock, so that no lease or delay ends early or late
after a change of the leader, even if the clocks of hosts differ by an hour. Reports of the leader's time arrive late by
the network delay, so the maximum of a recent period counts; the period is short, so that clock drift is corrected.
"""

from __future__ import annotations

from typing import Final, final

from longhall.world.ports import Clock

NOT_HEARD: Final = -(1 << 62)
BELIEVED_MS: Final = 10_000  # The length of a period; the last two count.


@final
class HallTime:
    """The hall time of one node. It never decreases, except to follow a leader."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._ahead_ms = clock.wall_ms() - clock.monotonic_ms()  # Relative to the monotonic clock.
        self._least_ms = 0  # The latest time in the log.
        self._heard_ms = NOT_HEARD  # The leader's maximal lead since `_since_ms`
        self._before_ms = NOT_HEARD  # and in the period before.
        self._since_ms = 0

    def not_before(self, time_ms: int) -> None:
        """Advance to at least this time, which is in the log."""
        self._least_ms = max(self._least_ms, time_ms)
        self._ahead_ms = max(self._ahead_ms, time_ms - self._clock.monotonic_ms())

    def follow(self, time_ms: int) -> None:
        """Follow the leader, whose time was `time_ms` when it sent this."""
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

"""The pace of the background scrub: its bytes a second, and when a pass is due.

A pass takes half of the interval, so that every byte is read once in an interval, even if it changed just after the
scrub had read it. The rate is the bytes left over the time left. A pass that is late, because the log has grown,
continues at the bound.
"""

from __future__ import annotations

from typing import Final, final

PASSES_AN_INTERVAL: Final = 2
TIME_LEFT_MS_MIN: Final = 1_000


@final
class ScrubPace:
    """The pace of one scrubber. `bytes_a_second_max` is the bound."""

    def __init__(self, interval_ms: int, bytes_a_second_max: int) -> None:
        self.pass_ms = interval_ms // PASSES_AN_INTERVAL
        self.bytes_a_second_max = bytes_a_second_max
        self.hurried = False  # An operator requested a pass: it runs at the bound.

    def bytes_a_second(self, bytes_left: int, began_ms: int, now_ms: int) -> float:
        """The bytes to read in the next second."""
        left_ms = began_ms + self.pass_ms - now_ms
        if self.hurried or left_ms <= 0:
            return float(self.bytes_a_second_max)
        return min(bytes_left * 1000 / max(left_ms, TIME_LEFT_MS_MIN), float(self.bytes_a_second_max))

    def is_too_slow(self, bytes_total: int) -> bool:
        """True if the bound is too low for a pass of this size to end in time."""
        return bytes_total * 1000 > self.bytes_a_second_max * self.pass_ms

    def is_due(self, began_ms: int, now_ms: int) -> bool:
        """True if a pass is due, given the start of the last one."""
        return self.hurried or not began_ms <= now_ms < began_ms + self.pass_ms

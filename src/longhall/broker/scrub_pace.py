"""The pace of the background scrub: how many bytes a second it may read, and when a pass has to be done.

A pass takes half of the interval. So a byte that was written, or flipped, right behind where the scrub had just been is
read by the next pass before the interval is over, wherever the two passes met it. The rate follows from the bytes that
are left and the time that is left. A pass whose time is over, because the log has grown, goes on at the bound.
"""

from __future__ import annotations

from typing import Final, final

PASSES_AN_INTERVAL: Final = 2
TIME_LEFT_MS_MIN: Final = 1_000


@final
class ScrubPace:
    """See the module. `bytes_a_second_max` is the bound."""

    def __init__(self, interval_ms: int, bytes_a_second_max: int) -> None:
        self.pass_ms = interval_ms // PASSES_AN_INTERVAL
        self.bytes_a_second_max = bytes_a_second_max
        self.hurried = False  # Somebody wants the pass at once: it takes what the bound allows.

    def bytes_a_second(self, bytes_left: int, began_ms: int, now_ms: int) -> float:
        """How much is read in the next second."""
        left_ms = began_ms + self.pass_ms - now_ms
        if self.hurried or left_ms <= 0:
            return float(self.bytes_a_second_max)
        return min(bytes_left * 1000 / max(left_ms, TIME_LEFT_MS_MIN), float(self.bytes_a_second_max))

    def is_too_slow(self, bytes_total: int) -> bool:
        """Whether the bound does not let a pass of so many bytes end in time."""
        return bytes_total * 1000 > self.bytes_a_second_max * self.pass_ms

    def is_due(self, began_ms: int, now_ms: int) -> bool:
        """Whether another pass begins, when the last one began then."""
        return self.hurried or not began_ms <= now_ms < began_ms + self.pass_ms

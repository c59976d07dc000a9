"""Counters and histograms, which rooms raise as they work and the console reads.

A counter is a plain int attribute of the object that counts; only distributions need a class. This module knows no
clock, no metric name and no format: the console names the metrics.
"""

from __future__ import annotations

from bisect import bisect_left
from typing import Final, final

# From 50 microseconds to 100 seconds, four steps a decade or so: wide enough for a sync, a fetch and a stall.
SECONDS_BOUNDS: Final[tuple[float, ...]] = (
    0.00005, 0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0,
    30.0, 100.0,
)  # fmt: skip


@final
class Histogram:
    """A histogram: the number of values between each two bounds, since the start.

    `counts[i]` is the number of values above `bounds[i - 1]` and up to `bounds[i]`; the last one is what lay beyond.
    """

    def __init__(self, bounds: tuple[float, ...] = SECONDS_BOUNDS) -> None:
        self.bounds = bounds
        self.counts: list[int] = [0] * (len(bounds) + 1)
        self.total = 0.0

    def observe(self, value: float) -> None:
        """Count one value."""
        self.counts[bisect_left(self.bounds, value)] += 1
        self.total += value

    @property
    def count(self) -> int:
        """The number of values."""
        return sum(self.counts)


def quantile(bounds: tuple[float, ...], counts: list[int], share: float) -> float:
    """The value below which `share` of the counted values lie, by a straight line within its step; 0 if there are none.

    What lay beyond the last bound is reported as that bound: the distribution does not know more.
    """
    wanted = share * sum(counts)
    below = 0.0
    for step, count in enumerate(counts[:-1]):
        if count and below + count >= wanted:
            low = bounds[step - 1] if step else 0.0
            return low + (bounds[step] - low) * (wanted - below) / count
        below += count
    return bounds[-1] if counts[-1] else 0.0

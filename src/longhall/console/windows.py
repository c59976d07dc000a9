"""Recent quantiles of a distribution, from cumulative counts.

Quantiles over the whole life of a node hide the present, and counting by minute would slow the hot path. So the console
copies the counts, at most once a minute, and subtracts: a reading covers between one and two minutes. Time is an
argument.
"""

from __future__ import annotations

from typing import Final, final

from longhall.meters import Histogram, quantile

WINDOW_MS: Final = 60_000


@final
class Recent:
    """The counts of the last minute or two."""

    def __init__(self, bounds: tuple[float, ...], counts: list[int]) -> None:
        self._bounds = bounds
        self._counts = counts

    def quantile(self, share: float) -> float:
        """The value below which the part `share` of the counts lies."""
        return quantile(self._bounds, self._counts, share)


@final
class QuantileWindow:
    """Two earlier readings of one histogram: the one subtracted, and the one that will be next."""

    def __init__(self) -> None:
        self._base: list[int] = []
        self._next: list[int] = []
        self._next_at_ms = 0

    def recent(self, histogram: Histogram, now_ms: int) -> Recent:
        """The counts since the reading before the last one, at `now_ms` (monotonic)."""
        counts = list(histogram.counts)
        if not self._base:
            self._base, self._next, self._next_at_ms = [0] * len(counts), counts, now_ms
        elif now_ms - self._next_at_ms >= WINDOW_MS:
            self._base, self._next, self._next_at_ms = self._next, counts, now_ms
        return Recent(histogram.bounds, [now - then for now, then in zip(counts, self._base, strict=True)])

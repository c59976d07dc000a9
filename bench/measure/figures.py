"""Percentiles and the spread over rounds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median


def percentile(ordered: Sequence[float], share: float) -> float:
    """The value below which `share` of an ordered, non-empty sequence lies (nearest rank)."""
    return ordered[min(len(ordered) - 1, int(len(ordered) * share))]


@dataclass(frozen=True)
class Spread:
    """One figure over several rounds."""

    median: float
    low: float
    high: float

    @staticmethod
    def of(values: Sequence[float]) -> Spread:
        return Spread(median=median(values), low=min(values), high=max(values))


def latency_figures(samples_ns: Sequence[int]) -> dict[str, float]:
    """p50, p99 and p99.9 in milliseconds, and the number of samples."""
    ordered = sorted(samples_ns)
    return {
        "p50_ms": percentile(ordered, 0.50) / 1e6,
        "p99_ms": percentile(ordered, 0.99) / 1e6,
        "p999_ms": percentile(ordered, 0.999) / 1e6,
        "samples": float(len(ordered)),
    }

"""Rates from counters: how much one has grown since the request before.

A rate is that of the time since a sample at least SAMPLE_MS old, so two tools that ask in turn do not take each other's
measure. The first answer has no rate: 0. The table is bounded, and what was not asked for the longest time is dropped.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, final

from longhall.world.ports import Clock

SAMPLE_MS: Final = 5_000
SAMPLED_MAX: Final = 20_000  # Things with samples: queues, exchanges, connections, the totals.

_Sample = tuple[int, dict[str, int]]


@final
class Rates:
    """The samples of one process."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._samples: dict[str, tuple[_Sample, _Sample]] = {}  # By thing: an older one, and the last.

    def with_details(self, thing: str, counters: Mapping[str, int]) -> dict[str, Any]:
        """The counters, and for each X the rate as X_details."""
        rates = self.rates(thing, counters)
        fields: dict[str, Any] = {}
        for name, value in counters.items():
            fields[name] = value
            fields[f"{name}_details"] = {"rate": rates[name]}
        return fields

    def details(self, thing: str, counters: Mapping[str, int]) -> dict[str, Any]:
        """The rates alone."""
        return {f"{name}_details": {"rate": rate} for name, rate in self.rates(thing, counters).items()}

    def rates(self, thing: str, counters: Mapping[str, int]) -> dict[str, float]:
        """The change of each counter in a second. A gauge may fall; a counter that fell has begun anew."""
        now_ms = self._clock.monotonic_ms()
        now: _Sample = (now_ms, dict(counters))
        before, last = self._samples.pop(thing, (now, now))
        if now_ms - last[0] >= SAMPLE_MS:
            before, last = last, now
        self._samples[thing] = (before, last)
        if len(self._samples) > SAMPLED_MAX:
            del self._samples[next(iter(self._samples))]
        seconds = (now_ms - before[0]) / 1000
        if seconds <= 0:
            return dict.fromkeys(counters, 0.0)
        return {name: (value - before[1].get(name, value)) / seconds for name, value in counters.items()}

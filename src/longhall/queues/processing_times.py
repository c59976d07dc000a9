"""The processing times of a queue's consumers, and the lease that would have been long enough.

A coarse histogram with four steps to an octave: an estimate is at most a quarter too high. All counts are halved from
time to time, so that the estimate follows the consumers. The state is a fold over settles: a replay rebuilds it.
"""

from __future__ import annotations

from typing import Final, final

_FADE_AFTER: Final = 4096
_SAFE_SHARE: Final = 0.99


@final
class ProcessingTimes:
    """The histogram of one queue. `outlived` counts settles after the end of the lease."""

    def __init__(self) -> None:
        self.outlived = 0
        self._counts: dict[int, int] = {}  # Step to count.
        self._total = 0

    def note(self, took_ms: int, outlived: bool) -> None:
        """Count one processing time, and whether it outlived the lease."""
        if outlived:
            self.outlived += 1
        step = _step_of(took_ms)
        self._counts[step] = self._counts.get(step, 0) + 1
        self._total += 1
        if self._total >= _FADE_AFTER:
            self._counts = {step: count // 2 for step, count in self._counts.items() if count > 1}
            self._total = sum(self._counts.values())

    def safe_lease_ms(self) -> int:
        """A lease long enough for 99 of 100 settles; 0 if there are none."""
        needed = self._total * _SAFE_SHARE
        for step in sorted(self._counts):
            needed -= self._counts[step]
            if needed <= 0:
                return _end_of(step)
        return 0

    def snapshot(self) -> list[object]:
        """Builtins only."""
        return [self.outlived, sorted(self._counts.items())]

    def restore(self, outlived: int, counts: list[tuple[int, int]]) -> None:
        """Take the state of a `snapshot`."""
        self.outlived = outlived
        self._counts = dict(counts)
        self._total = sum(self._counts.values())


def _step_of(took_ms: int) -> int:
    if took_ms < 4:
        return max(0, took_ms)
    octave = took_ms.bit_length() - 3
    return (octave << 2) + (took_ms >> octave)


def _end_of(step: int) -> int:
    """The first millisecond above a step."""
    step += 1
    if step < 8:
        return step
    octave = (step >> 2) - 1
    return ((step & 3) + 4) << octave

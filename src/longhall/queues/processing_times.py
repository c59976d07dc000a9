"""How long work on a message takes, and the lease that would have been long enough for it.

A coarse histogram: four steps to an octave, so an answer is at most a quarter too high. Old work fades, by halving
everything from time to time, so that the estimate follows the consumers. It is a fold over settles: replay rebuilds it.
"""

from __future__ import annotations

from typing import Final, final

_FADE_AFTER: Final = 4096
_SAFE_SHARE: Final = 0.99


@final
class ProcessingTimes:
    """Of one queue. `outlived` counts settles that came after the end of their lease."""

    def __init__(self) -> None:
        self.outlived = 0
        self._counts: dict[int, int] = {}  # Step to how often; made on first use, since most queues are idle.
        self._total = 0

    def note(self, took_ms: int, outlived: bool) -> None:
        """Work took so long; whether it was longer than its lease."""
        if outlived:
            self.outlived += 1
        step = _step_of(took_ms)
        self._counts[step] = self._counts.get(step, 0) + 1
        self._total += 1
        if self._total >= _FADE_AFTER:
            self._counts = {step: count // 2 for step, count in self._counts.items() if count > 1}
            self._total = sum(self._counts.values())

    def safe_lease_ms(self) -> int:
        """A lease that 99 of 100 would have kept within; 0 when nothing is known."""
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
        """Become what `snapshot` described."""
        self.outlived = outlived
        self._counts = dict(counts)
        self._total = sum(self._counts.values())


def _step_of(took_ms: int) -> int:
    if took_ms < 4:
        return max(0, took_ms)
    octave = took_ms.bit_length() - 3
    return (octave << 2) + (took_ms >> octave)


def _end_of(step: int) -> int:
    """The first millisecond behind a step."""
    step += 1
    if step < 8:
        return step
    octave = (step >> 2) - 1
    return ((step & 3) + 4) << octave

"""What was given out lately and will be asked for again when it is settled: so many messages, without their bodies."""

from __future__ import annotations

from typing import Final, final

from longhall.queues.fates import Trace

TRACES_MAX: Final = 10_000  # A queue; what is older is read from the log again.


@final
class Traces:
    """Of one queue. Only a cache: nothing depends on what is in it."""

    def __init__(self) -> None:
        self._traces: dict[tuple[int, int], Trace] = {}

    def __len__(self) -> int:
        return len(self._traces)

    def remember(self, lane: int, offset: int, trace: Trace) -> None:
        """It will be asked for."""
        if len(self._traces) >= TRACES_MAX:
            del self._traces[next(iter(self._traces))]
        self._traces[lane, offset] = trace

    def get(self, place: tuple[int, int]) -> Trace | None:
        """If it is still known."""
        return self._traces.get(place)

    def forget(self, lane: int, offset: int) -> None:
        """It will not be asked for any more."""
        if self._traces:
            self._traces.pop((lane, offset), None)

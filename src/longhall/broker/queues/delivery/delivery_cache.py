"""What was given out lately and will be asked for again when it is settled: so many messages, without their bodies."""

from __future__ import annotations

from typing import Final, final

from longhall.queues.delivery_reports import MessageInfo

MESSAGES_MAX: Final = 10_000  # A queue; what is older is read from the log again.


@final
class DeliveryCache:
    """Of one queue. Only a cache: nothing depends on what is in it."""

    def __init__(self) -> None:
        self._traces: dict[tuple[int, int], MessageInfo] = {}

    def __len__(self) -> int:
        return len(self._traces)

    def remember(self, lane: int, offset: int, info: MessageInfo) -> None:
        """It will be asked for."""
        if len(self._traces) >= MESSAGES_MAX:
            del self._traces[next(iter(self._traces))]
        self._traces[lane, offset] = info

    def get(self, place: tuple[int, int]) -> MessageInfo | None:
        """If it is still known."""
        return self._traces.get(place)

    def forget(self, lane: int, offset: int) -> None:
        """It will not be asked for any more."""
        if self._traces:
            self._traces.pop((lane, offset), None)

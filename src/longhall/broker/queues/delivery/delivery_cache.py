"""A cache of recently delivered messages without bodies, for their settles."""

from __future__ import annotations

from typing import Final, final

from longhall.queues.delivery_reports import MessageInfo

MESSAGES_MAX: Final = 10_000  # In one queue; older messages are read from the log.


@final
class DeliveryCache:
    """The cache of one queue, oldest entry first. Correctness never depends on its contents."""

    def __init__(self) -> None:
        self._infos: dict[tuple[int, int], MessageInfo] = {}

    def __len__(self) -> int:
        return len(self._infos)

    def remember(self, lane: int, offset: int, info: MessageInfo) -> None:
        """Add a delivered message."""
        if len(self._infos) >= MESSAGES_MAX:
            del self._infos[next(iter(self._infos))]
        self._infos[lane, offset] = info

    def get(self, place: tuple[int, int]) -> MessageInfo | None:
        """The message at this place, if it is cached."""
        return self._infos.get(place)

    def forget(self, lane: int, offset: int) -> None:
        """Remove a settled message."""
        if self._infos:
            self._infos.pop((lane, offset), None)

"""The limits of the service, and the rate of sends to FIFO queues."""

from __future__ import annotations

from collections.abc import Iterable
from typing import final

import msgspec


class SqsLimits(msgspec.Struct, frozen=True, kw_only=True):
    """Limits and defaults of the service that an operator can change; the service refuses what exceeds its own."""

    message_bytes_max: int = 1024 * 1024
    batch_bytes_max: int = 1024 * 1024
    delay_s_max: int = 900
    retention_s_min: int = 60
    retention_s_max: int = 1_209_600
    visibility_s_max: int = 43_200
    wait_s_max: int = 20
    fifo_sends_max: int = 0  # Send requests a second to a FIFO queue or to one of its groups; 0: no limit.
    purge_apart_ms: int = 60_000  # Between two purges of a queue.
    name_reuse_ms: int = 60_000  # How long the name of a deleted queue cannot be used again.
    seals_queues: bool = False  # New queues have SqsManagedSseEnabled, unless the request says otherwise.


@final
class SendRate:
    """Counts the send requests of the current second, by queue or by queue and message group.

    The table is empty at the beginning of each second, so it has at most as many rows as groups are sent to in one.
    """

    def __init__(self, requests_max: int) -> None:
        self._requests_max = requests_max
        self._second = -1
        self._counts: dict[tuple[str, str], int] = {}

    def admits(self, queue: str, groups: Iterable[str], now_ms: int) -> bool:
        """Count a request for all these groups of a queue, or for none if one has had its share."""
        second = now_ms // 1000
        if second != self._second:
            self._second = second
            self._counts = {}
        counts = self._counts
        keys = {(queue, group) for group in groups}
        if any(counts.get(key, 0) >= self._requests_max for key in keys):
            return False
        for key in keys:
            counts[key] = counts.get(key, 0) + 1
        return True

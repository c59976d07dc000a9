"""Traffic counters for the metrics."""

from __future__ import annotations

from typing import final


@final
class Traffic:
    """The counters of one topic, or of the whole node."""

    def __init__(self) -> None:
        self.messages_in = 0
        self.bytes_in = 0
        self.bytes_out = 0
        self.bytes_rejected = 0
        self.sends = 0
        self.sends_failed = 0
        self.fetches = 0
        self.fetches_failed = 0
        self.throttled = 0  # Sends beyond the quota.

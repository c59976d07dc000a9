"""The system's two clocks."""

from __future__ import annotations

import time
from typing import final


@final
class RealClock:
    """Wall time for people and records, monotonic time for waiting."""

    def wall_ms(self) -> int:
        return time.time_ns() // 1_000_000

    def monotonic_ms(self) -> int:
        return time.monotonic_ns() // 1_000_000

    def monotonic_us(self) -> int:
        return time.monotonic_ns() // 1_000

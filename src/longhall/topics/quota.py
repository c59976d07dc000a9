"""The produce quota of one topic or queue: a token bucket that may go into debt.

A send is charged after it was accepted. A bucket in debt says how long until the debt is paid: Kafka producers get that
as their throttle time, other clients are refused until then. So a request is never split, and one that exceeds a
second's worth is accepted too and paid for later; debt beyond a minute is forgiven. Time is an argument.
"""

from __future__ import annotations

from typing import Final, final

BURST_MS: Final = 1000  # Unused tokens accumulate for this long.
DEBT_MS_MAX: Final = 60_000
UNLIMITED: Final = -1


@final
class Bucket:
    """A token bucket for one unit, with a rate per second."""

    def __init__(self, a_second: int) -> None:
        assert a_second > 0
        self._a_second = a_second
        self._level = a_second * BURST_MS // 1000 * 1000  # In thousandths, so that nothing is lost to rounding.
        self._full = self._level
        self._least = -a_second * DEBT_MS_MAX
        self._filled_ms = -1

    def take(self, count: int, now_ms: int) -> None:
        """Charge `count`, allowed or not."""
        self._fill(now_ms)
        self._level = max(self._level - count * 1000, self._least)

    def debt_ms(self, now_ms: int) -> int:
        """Milliseconds until the bucket is out of debt; 0 if it is."""
        self._fill(now_ms)
        return -(self._level // self._a_second) if self._level < 0 else 0

    def _fill(self, now_ms: int) -> None:
        if self._filled_ms >= 0 and now_ms > self._filled_ms:
            self._level = min(self._full, self._level + (now_ms - self._filled_ms) * self._a_second)
        self._filled_ms = max(now_ms, self._filled_ms)


@final
class Quota:
    """The buckets of one topic: bytes and messages, each possibly unlimited."""

    def __init__(self, bytes_a_second: int, messages_a_second: int) -> None:
        self._bytes = Bucket(bytes_a_second) if bytes_a_second != UNLIMITED else None
        self._messages = Bucket(messages_a_second) if messages_a_second != UNLIMITED else None

    def charge(self, size_bytes: int, messages: int, now_ms: int) -> None:
        """Charge an accepted send."""
        if self._bytes is not None:
            self._bytes.take(size_bytes, now_ms)
        if self._messages is not None:
            self._messages.take(messages, now_ms)

    def debt_ms(self, now_ms: int) -> int:
        """How long the sender should wait before the next send, in milliseconds; 0 if it need not wait."""
        debt_ms = 0
        if self._bytes is not None:
            debt_ms = self._bytes.debt_ms(now_ms)
        if self._messages is not None:
            debt_ms = max(debt_ms, self._messages.debt_ms(now_ms))
        return debt_ms

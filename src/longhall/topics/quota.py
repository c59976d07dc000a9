"""How much may be sent to one topic or queue: a bucket that fills with time and may go into debt.

Whoever sends is charged for what was taken. A bucket in debt says how long it takes to be out of it: Kafka's producers
are told to wait so long, others are refused until then. So a request is never cut in two, and one that is larger than
a second's worth is taken too, and paid for later; a debt beyond a minute is forgiven. Time comes as an argument.
"""

from __future__ import annotations

from typing import Final, final

BURST_MS: Final = 1000  # What was not used for so long may be used at once.
DEBT_MS_MAX: Final = 60_000
UNLIMITED: Final = -1


@final
class Bucket:
    """One kind of thing, at so many a second."""

    def __init__(self, a_second: int) -> None:
        assert a_second > 0
        self._a_second = a_second
        self._level = a_second * BURST_MS // 1000 * 1000  # In thousandths, so that nothing is lost to rounding.
        self._full = self._level
        self._least = -a_second * DEBT_MS_MAX
        self._filled_ms = -1

    def take(self, count: int, now_ms: int) -> None:
        """So many were taken, allowed or not."""
        self._fill(now_ms)
        self._level = max(self._level - count * 1000, self._least)

    def debt_ms(self, now_ms: int) -> int:
        """How long it takes until more may be taken; 0 if that is now."""
        self._fill(now_ms)
        return -(self._level // self._a_second) if self._level < 0 else 0

    def _fill(self, now_ms: int) -> None:
        if self._filled_ms >= 0 and now_ms > self._filled_ms:
            self._level = min(self._full, self._level + (now_ms - self._filled_ms) * self._a_second)
        self._filled_ms = max(now_ms, self._filled_ms)


@final
class Quota:
    """The buckets of one topic: bytes and messages, either of which may be without bound."""

    def __init__(self, bytes_a_second: int, messages_a_second: int) -> None:
        self._bytes = Bucket(bytes_a_second) if bytes_a_second != UNLIMITED else None
        self._messages = Bucket(messages_a_second) if messages_a_second != UNLIMITED else None

    def charge(self, size_bytes: int, messages: int, now_ms: int) -> None:
        """So much was taken."""
        if self._bytes is not None:
            self._bytes.take(size_bytes, now_ms)
        if self._messages is not None:
            self._messages.take(messages, now_ms)

    def debt_ms(self, now_ms: int) -> int:
        """How long whoever sends should wait before sending more; 0 for not at all."""
        debt_ms = 0
        if self._bytes is not None:
            debt_ms = self._bytes.debt_ms(now_ms)
        if self._messages is not None:
            debt_ms = max(debt_ms, self._messages.debt_ms(now_ms))
        return debt_ms

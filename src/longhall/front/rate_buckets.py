"""Token buckets whose rates several processes share: each process has a part of every bucket.

A request is charged after it was accepted, and a bucket in debt says how long its clients have to wait; so a request is
never split, and one that exceeds a second's worth is accepted and paid for later. Unused tokens accumulate for
BURST_MS, debt beyond DEBT_MS_MAX is forgiven. Both count at the rate of this process's share.

`take_report` returns what was used since the last report, and `set_shares` takes the leader's answer
(`service.rate_division`). Without reports a process has the whole rate of every bucket. Time is an argument.
"""

from __future__ import annotations

import asyncio
import heapq
import math
from collections.abc import Mapping
from typing import Final, final

from longhall.service.limit_operations import RateUse

BURST_MS: Final = 1_000
DEBT_MS_MAX: Final = 60_000
BUCKETS_MAX: Final = 10_000  # Beyond them the one that was found first is dropped: it begins full again.
IDLE_REPORTS_MAX: Final = 20  # A bucket without use is dropped after so many reports.


@final
class RateBucket:
    """One bucket: this process's share of a rate. Tokens are counted in thousandths, debt is negative."""

    __slots__ = ("_a_ms", "_filled_ms", "_level", "a_second", "idle_reports", "is_short", "name", "used")

    def __init__(self, name: str, a_second: int, share: float) -> None:
        self.name = name
        self.a_second = a_second  # Of all processes together.
        self.used = 0  # Since the last report.
        self.is_short = False  # Clients had to wait since the last report.
        self.idle_reports = 0
        self._a_ms = a_second * share  # Thousandths of tokens in a millisecond.
        self._level = self._a_ms * BURST_MS
        self._filled_ms = -1

    def take(self, count: int, now_ms: int) -> None:
        """Charge `count`, allowed or not."""
        self._fill(now_ms)
        self.used += count
        self._level = max(self._level - count * 1000, -self._a_ms * DEBT_MS_MAX)

    def debt_ms(self, now_ms: int) -> int:
        """Milliseconds until the bucket is out of debt; 0 if it is."""
        self._fill(now_ms)
        if self._level >= 0:
            return 0
        self.is_short = True
        return math.ceil(-self._level / self._a_ms)

    def left(self, now_ms: int) -> int:
        """The tokens that are left."""
        self._fill(now_ms)
        return max(int(self._level / 1000), 0)

    def set_share(self, share: float, now_ms: int) -> None:
        """This process has another part of the rate from now on."""
        self._fill(now_ms)
        self._a_ms = self.a_second * share
        self._level = max(min(self._level, self._a_ms * BURST_MS), -self._a_ms * DEBT_MS_MAX)

    def _fill(self, now_ms: int) -> None:
        if self._filled_ms >= 0 and now_ms > self._filled_ms:
            self._level = min(self._level + (now_ms - self._filled_ms) * self._a_ms, self._a_ms * BURST_MS)
        self._filled_ms = max(now_ms, self._filled_ms)


@final
class RateBuckets:
    """The buckets of one process, by name."""

    def __init__(self) -> None:
        self.added = asyncio.Event()  # A bucket was added: its share is to be asked for.
        self.generation = 0  # Changes when a bucket is dropped: a holder must look it up again.
        self._buckets: dict[str, RateBucket] = {}  # The one that was found last is the last.
        self._processes = 1
        self._reported_ms = -1

    def __len__(self) -> int:
        return len(self._buckets)

    def find(self, name: str, a_second: int) -> RateBucket:
        """The bucket of this name, with this rate."""
        bucket = self._buckets.get(name)
        if bucket is not None and bucket.a_second == a_second:
            self._buckets[name] = self._buckets.pop(name)
            return bucket
        bucket = self._buckets[name] = RateBucket(name, a_second, 1 / self._processes)
        if len(self._buckets) > BUCKETS_MAX:
            del self._buckets[next(iter(self._buckets))]
            self.generation += 1
        self.added.set()
        return bucket

    def take_report(self, now_ms: int, count_max: int) -> list[RateUse]:
        """What was used since the last report, of the buckets that were used most."""
        passed_ms = max(now_ms - self._reported_ms, 1) if self._reported_ms >= 0 else BURST_MS
        self._reported_ms = now_ms
        self._drop_idle()
        uses: list[RateUse] = []
        for bucket in heapq.nlargest(count_max, self._buckets.values(), key=lambda one: one.used / one.a_second):
            uses.append(RateUse(bucket.name, bucket.used * 1000 / (bucket.a_second * passed_ms), bucket.is_short))
            bucket.used, bucket.is_short = 0, False
        return uses

    def _drop_idle(self) -> None:
        for bucket in self._buckets.values():
            bucket.idle_reports = 0 if bucket.used or bucket.is_short else bucket.idle_reports + 1
        for name in [name for name, bucket in self._buckets.items() if bucket.idle_reports > IDLE_REPORTS_MAX]:
            del self._buckets[name]
            self.generation += 1

    def set_shares(self, processes: int, shares: Mapping[str, float], now_ms: int) -> None:
        """The leader has divided the rates anew."""
        self._processes = max(processes, 1)
        for name, share in shares.items():
            bucket = self._buckets.get(name)
            if bucket is not None and share > 0:
                bucket.set_share(share, now_ms)

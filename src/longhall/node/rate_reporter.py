"""The reports of one process on what its clients use of limits, to the leader, which divides the limits.

A process that cannot reach the leader keeps its shares, and asks again. Without limits nothing is reported; the only
process of a node has the whole rate of every limit.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final, final

from longhall.broker.background import cancel
from longhall.broker.hall import Hall
from longhall.broker.pending import Pending
from longhall.errors import LonghallError
from longhall.front.rate_buckets import RateBuckets
from longhall.service.limit_operations import RateShares, ReportUse
from longhall.service.rate_division import BUCKETS_OF_PROCESS_MAX

TASK: Final = "report the use of limits"
REPORT_S: Final = 0.5
ANSWER_S_MAX: Final = 2.0
PROCESS_NAME_BYTES: Final = 8


@final
class RateReporter:
    """Reports while the process has buckets."""

    def __init__(self, hall: Hall, buckets: RateBuckets, call: Callable[[ReportUse], Pending[RateShares]]) -> None:
        self._hall = hall
        self._buckets = buckets
        self._process = ""  # A name that no other process has, from the first report on.
        self._call = call
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begin to report."""
        if self._task is None:
            self._task = self._hall.background.start(TASK, self._run)

    async def stop(self) -> None:
        """Report no more."""
        await cancel(self._task)
        self._task = None

    async def _run(self) -> None:
        while True:
            await self._wait()
            try:
                await self.report()
            except (LonghallError, OSError, TimeoutError):
                continue  # The shares stay as they are; clients are served all the same.

    async def _wait(self) -> None:
        """Wait for the time of the next report, or for a bucket whose share is not known."""
        added = self._buckets.added
        if not len(self._buckets):
            await added.wait()
        else:
            try:
                async with asyncio.timeout(REPORT_S):
                    await added.wait()
            except TimeoutError:
                pass
        added.clear()

    async def report(self) -> None:
        """Report once. Raises LonghallError, OSError or TimeoutError if the leader does not answer."""
        clock = self._hall.world.clock
        self._process = self._process or self._hall.world.entropy.bytes(PROCESS_NAME_BYTES).hex()
        uses = self._buckets.take_report(clock.monotonic_ms(), BUCKETS_OF_PROCESS_MAX)
        async with asyncio.timeout(ANSWER_S_MAX):
            shares = await self._call(ReportUse(self._process, uses))
        self._buckets.set_shares(shares.processes, shares.shares, clock.monotonic_ms())

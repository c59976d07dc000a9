"""When rounds are written and synced: at the end of each turn of the loop, one sync at a time.

Whoever appended calls `kick`. All that was appended in the same turn goes out in one write, and all that was written
while a sync was under way is covered by the next one. A sync that fails is never tried again: nobody knows what the
disk still has, so the node stops and finds out by recovering.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import final

from longhall.broker.time import HallTime
from longhall.meters import Histogram
from longhall.shards.journal import Journal, Round
from longhall.world.ports import Clock, Disk


@final
class Commits:
    """See the module."""

    def __init__(self, journal: Journal, disk: Disk, clock: Clock, time: HallTime) -> None:
        self.sync_seconds = Histogram()
        self.failure: OSError | None = None
        self.on_failure: Callable[[OSError], None] | None = None
        self._journal = journal
        self._disk = disk
        self._clock = clock
        self._time = time
        self._loop = asyncio.get_running_loop()
        self._kicked = False
        self._round: Round | None = None
        self._began_s = 0.0
        self._waiters: list[asyncio.Future[None]] = []  # Each asks again after every round.

    def kick(self) -> None:
        """Something was appended: write it when this turn of the loop ends."""
        if not self._kicked:
            self._kicked = True
            self._loop.call_soon(self._turn)

    def sync_soon(self) -> None:
        """Sync what was written, although nobody waits for it."""
        if self._round is None and self.failure is None and self._journal.wal.end > self._journal.wal.horizon:
            self._journal.write(self._time.now_ms())
            self._begin()

    async def durable(self) -> None:
        """Wait until everything appended so far is on the disk."""
        self._journal.write(self._time.now_ms())
        position = self._journal.wal.end
        while self._journal.wal.horizon < position:
            if self.failure is not None:
                raise self.failure
            waiter: asyncio.Future[None] = self._loop.create_future()
            self._waiters.append(waiter)
            self.sync_soon()
            await waiter

    def _turn(self) -> None:
        self._kicked = False
        if self.failure is not None:
            return
        try:
            self._journal.write(self._time.now_ms())
        except OSError as error:
            self.fail(error)
            return
        if self._round is None and self._journal.sync_wanted:
            self._begin()

    def _begin(self) -> None:
        self._round = self._journal.begin()
        self._began_s = self._loop.time()
        self._disk.sync(self._round.files, self._synced)

    def _synced(self, error: OSError | None) -> None:
        round = self._round
        assert round is not None
        self._round = None
        if error is not None:
            self.fail(error)
            return
        self.sync_seconds.observe(self._loop.time() - self._began_s)
        self._journal.finish(round)
        self._wake()
        if self._journal.sync_wanted:
            self._turn()

    def fail(self, error: OSError) -> None:
        """The disk broke its word: stop everything that waits, and tell the node."""
        self.failure = error
        self._wake()
        if self.on_failure is not None:
            self.on_failure(error)

    def _wake(self) -> None:
        if self._waiters:
            waiters, self._waiters = self._waiters, []
            for waiter in waiters:
                if not waiter.done():
                    waiter.set_result(None)

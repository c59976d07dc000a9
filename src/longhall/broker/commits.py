"""When rounds are written and synced: at the end of each turn of the loop, one sync at a time.

Whoever appended calls `kick`. All that was appended in the same turn goes out in one write, and all that was written
while a sync was under way is covered by the next one. A sync that fails is never tried again: nobody knows what the
disk still has, so the node stops and finds out by recovering.

A round of one request that touches the log alone is synced here and now while the disk is quick: the way to the
process that syncs and back would take longer than the sync. It must be the last of several such rounds, because where
others ask meanwhile the loop has better things to do than to wait. One that was slow is the last for a while.
"""

from __future__ import annotations

import asyncio
import errno
from collections.abc import Callable
from typing import Final, final

from longhall.broker.hall_time import HallTime
from longhall.meters import Histogram
from longhall.shards.journal import Journal, Round
from longhall.world.ports import Clock, Disk

LONE_BYTES_MAX: Final = 8 * 1024
LONE_KICKS_MAX: Final = 2  # For one request, or two at most: some kick when they append and again when they wait.
LONE_ROUNDS_MIN: Final = 4  # One after another, before the next is synced on the loop.
LONE_SLOW_US: Final = 20_000  # A sync on the loop that took longer closes this way
LONE_CLOSED_US: Final = 10_000_000  # for so long.


@final
class Commits:
    """See the module."""

    def __init__(self, journal: Journal, disk: Disk, clock: Clock, time: HallTime, lone_us_max: int = 0) -> None:
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
        self._began_us = 0
        self._begun_position = 0
        self._lone_us_max = lone_us_max
        self._kicks = 0  # Since the last round began.
        self._lone_rounds = 0  # One after another.
        self._quick = False  # Whether the last round was.
        self._lone_after_us = 0
        self._waiters: list[asyncio.Future[None]] = []  # Each asks again after every round.

    def kick(self) -> None:
        """Something was appended: write it when this turn of the loop ends."""
        self._kicks += 1
        if not self._kicked:
            self._kicked = True
            self._loop.call_soon(self._turn, True)

    def sync_soon(self) -> None:
        """Sync what was written, although nobody waits for it."""
        if self._round is None and self.failure is None and self._journal.wal.end > self._journal.wal.horizon:
            try:
                self.write()
            except OSError:
                return
            self._begin(at_rest=False)

    def write(self) -> None:
        """Write what was appended to the page cache. On OSError the node stops: a part of it may be there, and it must
        not be written twice. After a failure nothing is written any more.
        """
        if self.failure is not None:
            raise self.failure
        try:
            self._journal.write(self._time.now_ms())
        except OSError as error:
            self.fail(error)
            raise

    async def durable(self) -> None:
        """Wait until everything appended so far is on the disk."""
        self.write()
        position = self._journal.wal.end
        while self._journal.wal.horizon < position:
            if self.failure is not None:
                raise self.failure
            waiter: asyncio.Future[None] = self._loop.create_future()
            self._waiters.append(waiter)
            self.sync_soon()
            await waiter

    def _turn(self, at_rest: bool) -> None:
        """`at_rest` says that the loop called and nobody is in the middle of anything."""
        self._kicked = False
        if self.failure is not None:
            return
        try:
            self.write()
        except OSError:
            return
        if self._round is None and self._journal.sync_wanted:
            self._begin(at_rest)

    def _begin(self, at_rest: bool) -> None:
        try:
            round = self._round = self._journal.begin()
        except OSError as failure:  # A segment cannot be opened: what the round must sync is no longer known.
            self.fail(failure)
            return
        size = round.position - self._begun_position
        self._begun_position = round.position
        self._began_us = self._clock.monotonic_us()
        if len(round.files) == 1 and size <= LONE_BYTES_MAX and self._kicks <= LONE_KICKS_MAX:
            self._lone_rounds += 1
        else:
            self._lone_rounds = 0
        self._kicks = 0
        if self._lone_rounds > LONE_ROUNDS_MIN and self._quick and self._began_us >= self._lone_after_us:
            error = self._sync_here(round)
            if at_rest:
                self._synced(error)
            else:
                self._loop.call_soon(self._synced, error)
        else:
            self._disk.sync(round.files, self._synced)

    def _sync_here(self, round: Round) -> OSError | None:
        try:
            self._disk.sync_now(round.files[0])
        except OSError as error:
            return error
        if self._clock.monotonic_us() - self._began_us > LONE_SLOW_US:
            self._lone_after_us = self._began_us + LONE_CLOSED_US
        return None

    def _synced(self, error: OSError | None) -> None:
        round = self._round
        assert round is not None
        self._round = None
        if error is not None:
            self.fail(error)
            return
        took_us = self._clock.monotonic_us() - self._began_us
        self._quick = took_us <= self._lone_us_max
        self.sync_seconds.observe(took_us / 1_000_000)
        self._journal.finish(round)
        self._wake()
        if self._journal.sync_wanted:
            self._turn(at_rest=False)

    def fail(self, error: OSError) -> None:
        """The disk broke its word: stop everything that waits, and tell the node. The first failure is the one that
        counts.
        """
        if self.failure is not None:
            return
        self.failure = error
        self._wake()
        if self.on_failure is not None:
            self.on_failure(error)

    def abandon(self) -> None:
        """Write and sync no more: the directory is about to belong to somebody else."""
        self.failure = OSError(errno.ESHUTDOWN, "this hall was given up")
        self._wake()

    def _wake(self) -> None:
        if self._waiters:
            waiters, self._waiters = self._waiters, []
            for waiter in waiters:
                if not waiter.done():
                    waiter.set_result(None)

"""Group commit: appended entries are written at the end of each turn of the loop, with one sync at a time.

An append calls `kick`. All appends of one turn are one write, and the next sync covers everything written during the
last one. A failed sync is never retried: the contents of the disk are unknown, so the node stops and recovers.

A round with one request that touches only the log is synced on the loop while the disk is fast (a lone commit): the
round trip to the sync process would take longer. Several such rounds must precede it, because under concurrent requests
the loop should not block. A slow lone commit disables this for a while.
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
LONE_KICKS_MAX: Final = 2  # One request kicks at most twice: on append and on wait.
LONE_ROUNDS_MIN: Final = 4  # Consecutive lone rounds before one is synced on the loop.
LONE_SLOW_US: Final = 20_000  # A slower sync on the loop disables lone commits
LONE_CLOSED_US: Final = 10_000_000  # for this long.


@final
class Commits:
    """Writes and syncs the rounds of one journal. After the first `failure` nothing is written."""

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
        self._lone_rounds = 0  # Consecutive.
        self._quick = False  # True if the last sync took at most `_lone_us_max`.
        self._lone_after_us = 0
        self._waiters: list[asyncio.Future[None]] = []  # Woken after every round.

    def kick(self) -> None:
        """Write appended entries when this turn of the loop ends."""
        self._kicks += 1
        if not self._kicked:
            self._kicked = True
            self._loop.call_soon(self._turn, True)

    def sync_soon(self) -> None:
        """Sync written entries without a waiting caller."""
        if self._round is None and self.failure is None and self._journal.wal.end > self._journal.wal.horizon:
            try:
                self.write()
            except OSError:
                return
            self._begin(at_rest=False)

    def write(self) -> None:
        """Write appended entries to the page cache. On OSError the node stops: a part may be written, and must not be
        written twice. After a failure this raises.
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
        """`at_rest` is True if the event loop called, so that callbacks may run at once."""
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
        except OSError as failure:  # A segment cannot be opened, so the round cannot be synced.
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
        """Record the first failure, wake all waiters and report it to the node."""
        if self.failure is not None:
            return
        self.failure = error
        self._wake()
        if self.on_failure is not None:
            self.on_failure(error)

    def abandon(self) -> None:
        """Write and sync no more: another hall is about to use the directory."""
        self.failure = OSError(errno.ESHUTDOWN, "this hall was abandoned")
        self._wake()

    def _wake(self) -> None:
        if self._waiters:
            waiters, self._waiters = self._waiters, []
            for waiter in waiters:
                if not waiter.done():
                    waiter.set_result(None)

"""The housekeeper: periodic maintenance of a hall.

Every second: an idle log gets a trailing frame, tails are written to their segments, names of new files are synced, the
free space of the disk is checked, and a checkpoint is taken when the write-ahead log has grown enough.
At their intervals: the sync of topics with weak durability, retention and compaction. Unreferenced files are removed in
small steps.
"""

from __future__ import annotations

import asyncio
import errno
import logging
from typing import Final, cast, final

from longhall.broker.backpressure import Backpressure
from longhall.broker.checkpoint import PARTITIONS_A_TURN, checkpoint, sync_names
from longhall.broker.hall import EVENT_ROOM_BYTES, Hall, HallObserver
from longhall.broker.log_cleaner import LogCleaner
from longhall.broker.trailing_frame import TrailingFrameWriter
from longhall.errors import LonghallError

TICK_S: Final = 1.0
CLEANER_WAIT_S: Final = 2.0  # The cleaner looks again so soon while a compaction waits for a checkpoint.
CHECKPOINT_AGE_MS: Final = 300_000
RESERVE_MARGIN: Final = 16
FILES_RESERVE: Final = 16  # Inodes reserved for snapshots and indexes; below this, messages are refused.
PROBE: Final = "probe"  # A file that is created, written and removed to test whether the disk accepts writes.
PROBE_BYTES: Final = 4096
REFERENCED_SHARE: Final = 16
TAILS_FLUSHED_MAX: Final = 256  # In one second.
REMOVED_BYTES_MAX: Final = 16 * 1024 * 1024  # In one step, because syncs wait for it.
REMOVED_PATHS_MAX: Final = 64
REMOVAL_STEP_S: Final = 0.02

_log = logging.getLogger("longhall.keep")


@final
class Housekeeper(HallObserver):
    """The maintenance tasks of one hall."""

    def __init__(self, hall: Hall) -> None:
        self._hall = hall
        self._cleaner = LogCleaner(hall)
        self._backpressure = Backpressure(hall)
        self._trailing_frame = TrailingFrameWriter(hall)
        self._tasks: list[asyncio.Task[None]] = []
        self._weak_timer: asyncio.TimerHandle | None = None
        self._names_wanted = asyncio.Event()
        self._removals_wanted = asyncio.Event()
        hall.observers.append(self)

    def names_unsynced(self) -> None:
        self._names_wanted.set()

    def start(self) -> None:
        """Start the tasks."""
        self._hall.recovered_ms = self._hall.time.now_ms()
        self._look_at_space()
        background = self._hall.background
        self._tasks = [
            background.start("keep", self._every_second),
            background.start("names", self._when_names_are_wanted),
            background.start("clean", self._clean),
            background.start("remove", self._remove),
        ]
        self._hall.removal_wanted = self._removals_wanted
        self._sync_weak()

    async def stop(self) -> None:
        """Stop the tasks and wait for them."""
        self._hall.removal_wanted = None
        if self._weak_timer is not None:
            self._weak_timer.cancel()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _sync_weak(self) -> None:
        self._hall.commits.sync_soon()
        delay_s = self._hall.options.durability_interval_ms / 1000
        self._weak_timer = asyncio.get_running_loop().call_later(delay_s, self._sync_weak)

    async def _every_second(self) -> None:
        while True:
            await asyncio.sleep(TICK_S)
            if self._hall.commits.failure is not None or not self._has_directory():
                return  # The node stops; nothing more is written.
            self._look_at_space()
            self._backpressure.look()
            self._trailing_frame.look()
            for count, partition in enumerate(list(self._hall.tails.values())[:TAILS_FLUSHED_MAX], 1):
                self._hall.settle_tail(partition)
                if count % PARTITIONS_A_TURN == 0:
                    await asyncio.sleep(0)
            await self._sync_names()
            if self._checkpoint_due():
                await self._checkpoint()

    async def _when_names_are_wanted(self) -> None:
        while True:
            await self._names_wanted.wait()
            self._names_wanted.clear()
            await self._sync_names()

    async def _sync_names(self) -> None:
        """Sync the names of new files in the background: direct appends of large batches require it."""
        try:
            await sync_names(self._hall)
            self._hall.background.succeeded("names")
        except OSError as error:
            _log.warning("names of new files could not be synced", extra={"reason": str(error)})
            self._hall.background.failed("names", error)

    async def _clean(self) -> None:
        while True:
            interval_s = self._hall.options.cleaner_interval_ms / 1000
            await asyncio.sleep(min(interval_s, CLEANER_WAIT_S) if self._cleaner.waits_for_checkpoint else interval_s)
            if self._hall.replica is not None and not self._hall.replica.leading:
                continue  # The leader cleans; followers apply its events.
            if self._hall.pinned:
                continue
            self._hall.cleaning = True
            try:
                await self._cleaner.run()
                self._hall.background.succeeded("clean")
            except (OSError, LonghallError) as error:
                _log.warning("cleaning stopped", extra={"reason": str(error)})
                self._hall.background.failed("clean", error)
            finally:
                self._hall.cleaning = False

    async def _remove(self) -> None:
        """Remove unreferenced files in small steps."""
        hall = self._hall
        while True:
            await self._removals_wanted.wait()
            self._removals_wanted.clear()
            while hall.removals:
                paths = hall.removals[:REMOVED_PATHS_MAX]
                try:
                    done = await hall.world.janitor.run("remove", {"paths": paths, "bytes_max": REMOVED_BYTES_MAX})
                except (OSError, LonghallError) as error:
                    _log.warning("files could not be removed", extra={"reason": str(error)})
                    hall.background.failed("remove", error)
                    break  # Retried after the next checkpoint.
                hall.background.succeeded("remove")
                hall.removals[: len(paths)] = cast(list[str], done["left"])
                await asyncio.sleep(REMOVAL_STEP_S)

    def _has_directory(self) -> bool:
        """False if the data directory was removed or replaced. The node stops then, because writes to unlinked files
        are lost.
        """
        hall = self._hall
        if hall.world.disk.is_linked(hall.wal.current_file):
            return True
        reason = "the data directory was removed or replaced while the node was running"
        hall.commits.fail(OSError(errno.ENOENT, reason))
        return False

    def _look_at_space(self) -> None:
        """Update the free space; refuse messages before the disk is full, and accept them when it is not."""
        hall = self._hall
        free = hall.world.disk.free_bytes()
        hall.space_bytes = free - hall.options.disk_reserve_bytes - hall.tail_bytes
        # A margin above the reserve: after a large message is refused, smaller ones are refused too.
        margin = hall.options.disk_reserve_bytes // RESERVE_MARGIN
        files = hall.world.disk.free_files()
        full = hall.space_bytes < margin or files < FILES_RESERVE or not hall.log_has_room(2 * EVENT_ROOM_BYTES)
        if not full and hall.write_failed:
            full = not self._takes_writes()
        if full != hall.storage_full:
            space = {"free_bytes": free, "free_files": files}
            _log.warning("the disk is full" if full else "the disk is no longer full", extra=space)
        hall.storage_full = full
        hall.write_failed = hall.write_failed and full

    def _takes_writes(self) -> bool:
        disk = self._hall.world.disk
        try:
            file = disk.open(PROBE, create=True)
            try:
                file.write_at(0, (bytes(PROBE_BYTES),))
            finally:
                file.close()
                disk.remove(PROBE)
        except OSError:
            return False
        return True

    def _checkpoint_due(self) -> bool:
        hall = self._hall
        if hall.pinned or hall.failed:
            return False
        behind = hall.wal.end - hall.checkpoint_at
        aged = hall.time.now_ms() - hall.checkpointed_ms > CHECKPOINT_AGE_MS and behind > 0
        # A replay reads only the headers of referenced batches.
        grown = behind + hall.referenced_bytes // REFERENCED_SHARE > hall.options.checkpoint_bytes
        grown |= hall.steps() - hall.checkpoint_steps > hall.options.checkpoint_steps
        return grown or aged or bool(hall.dropped) or bool(hall.dead_segments) or hall.checkpoint_wanted

    async def _checkpoint(self) -> None:
        background = self._hall.background
        try:
            await checkpoint(self._hall)
            background.succeeded("checkpoint")
        except (OSError, LonghallError) as error:
            _log.warning("no checkpoint could be taken", extra={"reason": str(error)})
            if (
                not isinstance(error, OSError) or error.errno != errno.EAGAIN
            ):  # Else the commit of other replicas is missing.
                background.failed("checkpoint", error)

"""Keep house: what must happen now and then although nobody asked.

Every second: an idle log gets its last word, tails go to their segments, names of new files are made durable, the
disk's free space is looked at, weak topics are synced when their interval is over, and a checkpoint is taken when the
write-ahead log has grown enough.
Every few: retention and compaction. Files that nothing refers to any more go in small steps.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Final, cast, final

from longhall.broker.checkpoint import PARTITIONS_A_TURN, checkpoint, sync_names
from longhall.broker.clean import Cleaner
from longhall.broker.hall import EVENT_ROOM_BYTES, Hall
from longhall.broker.vouch import Voucher
from longhall.errors import LonghallError

TICK_S: Final = 1.0
CHECKPOINT_AGE_MS: Final = 300_000
RESERVE_MARGIN: Final = 16
REFERENCED_SHARE: Final = 16
TAILS_FLUSHED_MAX: Final = 256  # In one second.
REMOVED_BYTES_MAX: Final = 16 * 1024 * 1024  # In one step: syncs wait for no more than that.
REMOVED_PATHS_MAX: Final = 64
REMOVAL_STEP_S: Final = 0.02

_log = logging.getLogger("longhall.keep")


@final
class Housekeeper:
    """See the module."""

    def __init__(self, hall: Hall) -> None:
        self._hall = hall
        self._cleaner = Cleaner(hall)
        self._voucher = Voucher(hall)
        self._tasks: list[asyncio.Task[None]] = []
        self._weak_timer: asyncio.TimerHandle | None = None
        self._names_wanted = asyncio.Event()
        self._removals_wanted = asyncio.Event()
        hall.on_names_wanted = self._names_wanted.set

    def start(self) -> None:
        """Begin."""
        self._look_at_space()
        loop = asyncio.get_running_loop()
        self._tasks = [
            loop.create_task(self._every_second(), name="keep"),
            loop.create_task(self._when_names_are_wanted(), name="names"),
            loop.create_task(self._clean(), name="clean"),
            loop.create_task(self._remove(), name="remove"),
        ]
        self._hall.on_removals = self._removals_wanted.set
        self._sync_weak()

    async def stop(self) -> None:
        """Let go of everything and wait until it is quiet."""
        self._hall.on_removals = None
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
            self._look_at_space()
            self._voucher.look()
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
        """Large batches go straight to their segment only when its name is durable: see to it beside the loop."""
        try:
            await sync_names(self._hall)
        except OSError as error:
            _log.warning("names of files could not be made durable", extra={"reason": str(error)})

    async def _clean(self) -> None:
        while True:
            await asyncio.sleep(self._hall.options.cleaner_interval_ms / 1000)
            if self._hall.replica is not None and not self._hall.replica.leading:
                continue  # What goes is decided by the leader, and followers hear of it.
            if self._hall.pinned:
                continue
            self._hall.cleaning = True
            try:
                await self._cleaner.run()
            except (OSError, LonghallError) as error:
                _log.warning("cleaning stopped", extra={"reason": str(error)})
            finally:
                self._hall.cleaning = False

    async def _remove(self) -> None:
        """Give back the space of what was removed, bit by bit."""
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
                    break  # After the next checkpoint they are tried again.
                hall.removals[: len(paths)] = cast(list[str], done["left"])
                await asyncio.sleep(REMOVAL_STEP_S)

    def _look_at_space(self) -> None:
        """Refuse producers before the disk is full, and let them in again when it is not."""
        hall = self._hall
        free = hall.world.disk.free_bytes()
        hall.space_bytes = free - hall.options.disk_reserve_bytes - hall.tail_bytes
        # A little more than the reserve, so that what was refused for its size is not followed by what is smaller.
        margin = hall.options.disk_reserve_bytes // RESERVE_MARGIN
        full = hall.space_bytes < margin or not hall.has_room(2 * EVENT_ROOM_BYTES)
        if full != hall.storage_full:
            _log.warning("the disk is full" if full else "the disk is no longer full", extra={"free_bytes": free})
        hall.storage_full = full

    def _checkpoint_due(self) -> bool:
        hall = self._hall
        if hall.pinned:
            return False
        behind = hall.wal.end - hall.checkpoint_at
        aged = hall.time.now_ms() - hall.checkpointed_ms > CHECKPOINT_AGE_MS and behind > 0
        # What the log only refers to is in its segment already: a replay reads its header and no more.
        grown = behind + hall.referenced_bytes // REFERENCED_SHARE > hall.options.checkpoint_bytes
        grown |= hall.steps() - hall.checkpoint_steps > hall.options.checkpoint_steps
        return grown or aged or bool(hall.dropped) or bool(hall.dead_segments) or hall.checkpoint_wanted

    async def _checkpoint(self) -> None:
        try:
            await checkpoint(self._hall)
        except (OSError, LonghallError) as error:
            _log.warning("no checkpoint could be taken", extra={"reason": str(error)})

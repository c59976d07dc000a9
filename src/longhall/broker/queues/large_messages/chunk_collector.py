"""The chunk collector: frees the chunks of large messages that no queue needs, and of expired uploads.

A large message is needed while one of its records is: while the record is in its log, and a queue on that log has not
settled it or keeps settled messages. The collector checks every large message periodically, and frees an unneeded one
after a grace period for current readers.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Final, final

from longhall.broker.background import cancel
from longhall.broker.events import PartsDropped
from longhall.broker.hall import EVENT_ROOM_BYTES, Hall
from longhall.broker.queues.large_messages.upload import give_up
from longhall.broker.queues.running_queue import RunningQueue
from longhall.broker.queues.write import together, write_whole
from longhall.broker.waiting import Commit
from longhall.errors import LonghallError
from longhall.queues.auxiliary_events import WholeFreed
from longhall.queues.chunked_messages import ChunkedMessage, Place

SWEEP_S: Final = 15.0
GRACE_MS: Final = 60_000
FREED_A_TURN_MAX: Final = 64

_log = logging.getLogger("longhall.queues")


@final
class ChunkCollector:
    """The periodic collection for one hall. `_unwanted` has the time since which a message is not needed."""

    def __init__(self, hall: Hall) -> None:
        self._hall = hall
        self._unwanted: dict[str, int] = {}  # Time by name.
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Start the task."""
        self._task = self._hall.background.start("sweep", self._run)

    async def stop(self) -> None:
        """Stop the task."""
        await cancel(self._task)

    async def _run(self) -> None:
        while True:
            await asyncio.sleep(SWEEP_S)
            try:
                await self.sweep()
            except (OSError, LonghallError) as error:
                _log.warning("large messages could not be freed", extra={"reason": str(error)})

    async def sweep(self) -> None:
        """Check all uploads and large messages once."""
        hall = self._hall
        now_ms = hall.time.now_ms()
        for uploads in hall.uploads:
            over = {ended.upload_id for ended in uploads.expired(now_ms)}
            for upload_id, queue, _ in uploads.places():
                if (upload_id in over or queue not in hall.queues) and hall.has_room(EVENT_ROOM_BYTES // 4):
                    give_up(hall, upload_id, expired=True)
        freed = 0
        for shard, messages in enumerate(hall.chunked_messages, 1):
            for name, whole in messages.items():
                if self._is_over(name, whole, now_ms) and hall.has_room(EVENT_ROOM_BYTES // 4):
                    self._free(shard, name, whole)
                    freed += 1
                    if freed % FREED_A_TURN_MAX == 0:
                        await asyncio.sleep(0)

    def _is_over(self, name: str, whole: ChunkedMessage, now_ms: int) -> bool:
        """True if no queue has needed it for the grace period."""
        if any(self._is_wanted(place) for place in whole.places):
            self._unwanted.pop(name, None)
            return False
        return now_ms - self._unwanted.setdefault(name, now_ms) >= GRACE_MS

    def _is_wanted(self, place: Place) -> bool:
        lane, offset = place
        partition = self._hall.partitions.get(lane)
        if partition is None or offset < partition.log.start_offset:
            return False
        for listener in partition.listeners:
            if not isinstance(listener, RunningQueue):
                continue
            if lane in listener.hidden:
                if not listener.staging.is_settled(lane, offset):
                    return True
            elif _keeps(listener, lane, offset):
                return True
        return False

    def _free(self, shard: int, name: str, whole: ChunkedMessage) -> None:
        self._unwanted.pop(name, None)
        with together(self._hall):
            write_whole(self._hall, shard, WholeFreed(whole=name))
            self._hall.append_catalogue(PartsDropped(partition=whole.parts), Commit())


def _keeps(queue: RunningQueue, lane: int, offset: int) -> bool:
    """True if the queue may still deliver this message."""
    if queue.settings.settled == "keep" or lane not in queue.queue.state.lanes:
        return True
    return not queue.queue.cursor(lane).is_settled(offset)

"""Progress notes: the leader notes the commit position with the coordinator every few seconds.

A replica in sync that has less than the note says was rolled back (a restored disk, a lost write), and is not elected.
The note may be older than the log, never newer.
"""

from __future__ import annotations

import asyncio
from typing import Final, final

from longhall.broker.feature_gates import REPLICAS_LEVEL
from longhall.coordination.ports import Coordinator, Progress
from longhall.shards.replica import Replica, epoch_at

NOTED_S: Final = 5.0


@final
class ProgressNotes:
    """The progress notes of one node, while it leads."""

    def __init__(self, coordinator: Coordinator) -> None:
        self._coordinator = coordinator
        self._noted = Progress()
        self._noted_s = -NOTED_S
        self._loop = asyncio.get_running_loop()

    async def write(self, replica: Replica, level: int) -> None:
        """Note the commit position, if it has moved and a note is due. CoordinationError if that fails."""
        index = replica.committed
        now_s = self._loop.time()
        if level < REPLICAS_LEVEL or index <= self._noted.index or now_s - self._noted_s < NOTED_S:
            return
        self._noted_s = now_s
        self._noted = Progress(epoch=epoch_at(replica, index), index=index)
        await self._coordinator.note_progress(self._noted)

"""Reads of hidden logs, for the promotion and restaging of delayed messages.

Messages that are due together are mostly adjacent, so one read ahead serves many.
"""

from __future__ import annotations

from typing import Final, final

from longhall.broker.hall import Hall
from longhall.broker.queues.delivery.message_lookup import look_into
from longhall.broker.queues.running_queue import RunningQueue
from longhall.broker.waiting import committed
from longhall.queues.outcomes import Candidate
from longhall.records.record import Record

AHEAD_MAX: Final = 500


@final
class HiddenReader:
    """Reads the hidden logs of one queue during one step."""

    def __init__(self, hall: Hall, queue: RunningQueue) -> None:
        self._hall = hall
        self._queue = queue
        self._lane = -1
        self._found: list[Candidate] = []
        self._at = 0

    async def read(self, lane: int, offset: int, count_max: int) -> tuple[list[Record], int]:
        """Records from `offset` on, and the offset after them."""
        found = await self._look(lane, offset, count_max)
        records = [candidate.payload for candidate in found if isinstance(candidate.payload, Record)]
        return records, found[-1].next_offset if found else offset

    async def one(self, lane: int, offset: int) -> Record | None:
        """The record at this offset; None if it is gone."""
        found, at = self._found, self._at
        if lane != self._lane or not found or not found[at].offset <= offset < found[-1].next_offset:
            found = self._found = await self._look(lane, offset, AHEAD_MAX)
            self._lane = lane
            at = 0
        while at < len(found) and found[at].next_offset <= offset:
            at += 1
        self._at = min(at, max(len(found) - 1, 0))
        if at == len(found) or found[at].offset != offset:
            return None
        record = found[at].payload
        return record if isinstance(record, Record) else None

    async def _look(self, lane: int, offset: int, count_max: int) -> list[Candidate]:
        window = self._queue.window(lane)
        if window.partition.high_watermark <= offset < window.partition.log.next_offset:
            await committed(self._hall, self._queue.shard)  # Due but not committed yet.
        return await look_into(self._hall, window, offset, count_max)

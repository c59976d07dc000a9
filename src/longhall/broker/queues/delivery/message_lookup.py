"""Message lookup: messages by position, from the delivery cache or from the log."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

from longhall.broker.fetch import PartitionFetch, supply
from longhall.broker.hall import Hall
from longhall.broker.queues.delivery.window import Window
from longhall.broker.queues.running_queue import RunningQueue
from longhall.errors import Code, LonghallError
from longhall.queues.delivery_reports import MessageInfo, message_info_of
from longhall.queues.envelope import decode_record, derive_message_id
from longhall.queues.outcomes import UNREADABLE, Candidate
from longhall.records.record import Record

Place = tuple[int, int]


async def warm(hall: Hall, queue: RunningQueue, lane: int) -> None:
    """Read the missing data of this lane into memory."""
    await _supply(hall, queue.window(lane))


async def look(hall: Hall, queue: RunningQueue, lane: int, offset: int, count_max: int) -> list[Candidate]:
    """Messages of a lane from an offset on, read from disk if needed; empty at the end."""
    return await look_into(hall, queue.window(lane), offset, count_max)


async def look_into(hall: Hall, window: Window, offset: int, count_max: int) -> list[Candidate]:
    """Messages through any window, read from disk if needed. NOT_READY if the first is under repair."""
    found = await read_through(hall, window, offset, count_max)
    if found and found[0].size_bytes == UNREADABLE:
        raise LonghallError(Code.NOT_READY, "a message is being repaired from another replica; try again")
    return found


async def read_through(hall: Hall, window: Window, offset: int, count_max: int) -> list[Candidate]:
    """Messages through any window, read from disk if needed; those under repair are UNREADABLE."""
    while True:
        found = window.look(offset, count_max)
        if found is not None:
            return found
        await _supply(hall, window)


async def _supply(hall: Hall, window: Window) -> None:
    """Read the missing data of a window; concurrent callers wait for the same read."""
    if window.warming is not None:
        await asyncio.shield(window.warming)
        return  # The caller reads again; if the other read failed, the data is still missing.
    if window.cold is None:
        return
    cold, window.cold = window.cold, None
    done = window.warming = asyncio.get_running_loop().create_future()
    try:
        window.supplied = await supply(hall, PartitionFetch(window.partition, 0, 0, -1), cold)
    finally:
        window.warming = None
        if not done.done():
            done.set_result(None)


async def look_up_record(hall: Hall, queue: RunningQueue, lane: int, offset: int) -> Record | None:
    """The record at this offset; None if the log has lost it."""
    found = await look(hall, queue, lane, offset, 1)
    record = found[0].payload if found and found[0].offset == offset else None
    return record if isinstance(record, Record) else None


def cached_traces(queue: RunningQueue, places: Iterable[Place]) -> dict[Place, MessageInfo] | None:
    """The infos of these messages; for lost ones only the id. None if a read from disk is needed."""
    infos: dict[Place, MessageInfo] = {}
    for lane, offset in places:
        info = queue.delivery_cache.get((lane, offset))
        if info is None and lane in queue.lanes:
            found = queue.peek(lane, offset, 1)
            if found is None:
                return None
            record = found[0].payload if found and found[0].offset == offset else None
            if isinstance(record, Record):
                info = message_info_of(decode_record(record, lane))
        infos[lane, offset] = info or MessageInfo(message_id=derive_message_id(lane, offset))
    return infos


async def look_up_infos(hall: Hall, queue: RunningQueue, places: Iterable[Place]) -> dict[Place, MessageInfo]:
    """The infos of these messages, read from disk if needed."""
    infos: dict[Place, MessageInfo] = {}
    for lane, offset in places:
        if lane in queue.lanes and queue.delivery_cache.get((lane, offset)) is None:
            await look(hall, queue, lane, offset, 1)
        infos.update(cached_traces(queue, [(lane, offset)]) or {})
    return infos

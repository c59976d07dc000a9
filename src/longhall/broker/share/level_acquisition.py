"""Acquisition of messages with a priority, and of late stamped ones: the lease is of the copy in the lane of the level.

A share member knows a message by its offset in a partition, and the copy names that offset. So the member gets the
message at the offset of the original, in a batch that is built from the copy: the original may be freed already. The
highest level is served first; a partition whose batches hold copies has nothing else in the same reply, because its own
batches contain the originals too.

Copies that a version before this one has written do not name their original: they are refused, and left to consumers of
other doors.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Final, final

from longhall.broker.hall import Hall
from longhall.broker.partition import Partition
from longhall.broker.queues.delivery.message_lookup import warm
from longhall.broker.queues.delivery.receive import check_delivery, decide_delivery
from longhall.broker.queues.running_queue import RunningQueue
from longhall.broker.share.acquisition import STEPS_MAX, Wanted, deliveries_of, return_unseen
from longhall.broker.share.target import ShareTarget
from longhall.errors import Code, LonghallError
from longhall.queues.level_copies import original_of, original_record
from longhall.queues.outcomes import Given, Status
from longhall.records.batch import build_batch
from longhall.records.record import Record

SPAN_MAX: Final = 0x7FFFFFFF  # Of the offsets in one batch.

_Ranges = list[tuple[int, int, int]]


def has_copies(queue: RunningQueue) -> bool:
    """True if a level has messages that can be delivered."""
    for lane in queue.levels.values():
        if lane.lane in queue.queue.state.lanes and queue.queue.first_waiting(lane.lane, lane.high_watermark) >= 0:
            return True
    return False


async def acquire_copies(
    hall: Hall, queue: RunningQueue, targets: Sequence[ShareTarget], wanted: Wanted, lock_ms: int
) -> None:
    """Lease messages of the levels to a member, highest first, and take them off `wanted`. Raises LonghallError."""
    settles = queue.settings.delivery == "at-most-once"
    if settles and len(targets) < len(queue.route):
        return  # The delivery settles, and the copy of another partition could not be returned.
    reply = _Reply(queue, targets, wanted, not settles)
    levels = {partition.lane: partition for partition in queue.levels.values()}
    try:
        for lane, _, _ in queue.queue.lanes():  # By falling priority.
            if lane in levels:
                await _acquire_level(hall, queue, levels[lane], wanted, lock_ms, reply)
            if wanted.records_max <= 0 or wanted.bytes_max <= 0:
                break
    finally:
        reply.build()


async def _acquire_level(
    hall: Hall, queue: RunningQueue, level: Partition, wanted: Wanted, lock_ms: int, reply: _Reply
) -> None:
    for _ in range(STEPS_MAX):
        if wanted.records_max <= 0 or wanted.bytes_max <= 0:
            return
        check_delivery(hall, queue)
        _check_copies(queue, level)
        outcome = decide_delivery(hall, queue, wanted.records_max, lock_ms, None, wanted.consumer, level.lane)
        if outcome.given:
            unseen = [one for one in outcome.given if not reply.add(one)]
            return_unseen(hall, queue, None, unseen)
            if unseen:
                return
        elif outcome.status is Status.COLD:
            await warm(hall, queue, outcome.cold_lane)
        elif outcome.status in (Status.DEATHS, Status.MORE):
            await asyncio.sleep(0)  # A long scan is cut into pieces, so that other requests come between.
        else:
            return


def _check_copies(queue: RunningQueue, level: Partition) -> None:
    """Raises INVALID_REQUEST if the first message of a level does not name its original."""
    first = queue.queue.first_waiting(level.lane, level.high_watermark)
    candidates = queue.window(level.lane).look(first, 1) if first >= 0 else None
    record = candidates[0].payload if candidates else None
    if isinstance(record, Record) and original_of(record) is None:
        raise LonghallError(
            Code.INVALID_REQUEST,
            f"Queue '{queue.entry.name}' has messages with a priority from an earlier version: share groups can "
            "consume it when consumers of other doors have settled them.",
        )


@final
class _Reply:
    """The copies for the partitions of a fetch."""

    def __init__(self, queue: RunningQueue, targets: Sequence[ShareTarget], wanted: Wanted, is_kept: bool) -> None:
        self._targets = {target.partition.number: target for target in targets}
        self._found: dict[int, list[tuple[int, Given, Record]]] = {}
        self._wanted = wanted
        self._is_kept = is_kept

    def add(self, given: Given) -> bool:
        """Take a leased copy; False if the reply has no place for it."""
        record = given.candidate.payload
        original = original_of(record) if isinstance(record, Record) else None
        target = self._targets.get(original[0]) if original is not None else None
        wanted = self._wanted
        if original is None or target is None or not isinstance(record, Record):
            return False
        size_bytes = len(record.value or b"")
        if wanted.bytes_max < size_bytes and self._found and self._is_kept:
            wanted.bytes_max = 0
            return False
        offset = original[1]
        target.holding.add_copy(offset, given, self._is_kept)
        self._found.setdefault(original[0], []).append((offset, given, record))
        wanted.records_max -= 1
        wanted.bytes_max -= size_bytes
        return True

    def build(self) -> None:
        """Write the batches of each partition, in the order of offsets."""
        for number, found in self._found.items():
            acquired = self._targets[number].acquired
            found.sort(key=_offset)
            acquired.records = len(found)
            at = 0
            while at < len(found):
                first = found[at][0]
                records: list[Record] = []
                while at < len(found) and found[at][0] - first <= SPAN_MAX:
                    offset, given, copy = found[at]
                    records.append(original_record(copy, offset))
                    _add_range(acquired.ranges, offset, deliveries_of(given))
                    at += 1
                batch = build_batch(records, base_offset=first)
                acquired.batches.append(batch)
                acquired.size_bytes += len(batch)


def _offset(found: tuple[int, Given, Record]) -> int:
    return found[0]


def _add_range(ranges: _Ranges, offset: int, deliveries: int) -> None:
    last = ranges[-1] if ranges else None
    if last is not None and last[1] + 1 == offset and last[2] == deliveries:
        ranges[-1] = (last[0], offset, deliveries)
    else:
        ranges.append((offset, offset, deliveries))

"""Acquisition: a share member leases messages of one partition, and gets the batches that contain them.

decide    the cursor chooses messages of the lane; a batch-optimised request takes the rest of the last batch too
read      the batches are read from the log and passed on unopened; a client shows only what it has acquired
return    messages for which the reply has no room are returned unseen: that was no attempt

The leases are written when this returns; the caller waits for the commit before it answers.
"""

from __future__ import annotations

import asyncio
from typing import Final, final

from longhall.broker.fetch import FETCH_BYTES_MAX, PartitionFetch, supply
from longhall.broker.hall import Hall
from longhall.broker.large_fetch import JOINED_BYTES_MAX, join_batch, large_bytes_of
from longhall.broker.partition import Partition
from longhall.broker.queues.delivery.message_lookup import warm
from longhall.broker.queues.delivery.receive import check_delivery, decide_delivery
from longhall.broker.queues.running_queue import RunningQueue
from longhall.broker.queues.write import write_queue
from longhall.broker.share.holdings import SETTLED, Holding
from longhall.errors import Code, LonghallError
from longhall.log.segment_reads import Supplied
from longhall.queues.envelope import ATTEMPTS
from longhall.queues.marks import NO_LIMIT
from longhall.queues.outcomes import Given, Status
from longhall.records.batch import BatchHeader, parse_header
from longhall.records.record import Record

READ_BYTES: Final = 256 * 1024
STEPS_MAX: Final = 64  # Of one acquisition that finds nothing: cold reads, deaths, ranges without messages.
DELIVERIES_SHOWN_MAX: Final = 32_767  # The protocol has 16 bits for the count.


@final
class Wanted:
    """What a member asks for. With `is_strict` it gets at most `records_max`; else whole batches. Without `may_scan` it
    gets only messages that were delivered before. `room` is how many more records of the partition the group may lock.
    """

    def __init__(
        self,
        records_max: int,
        bytes_max: int,
        batch_size: int,
        is_strict: bool,
        consumer: str,
        may_scan: bool = True,
        room: int = NO_LIMIT,
    ) -> None:
        self.records_max = records_max
        self.bytes_max = min(bytes_max, FETCH_BYTES_MAX)
        self.batch_size = max(batch_size, 1)
        self.is_strict = is_strict
        self.consumer = consumer
        self.may_scan = may_scan
        self.room = room


@final
class Acquired:
    """The records that a member acquires of one partition: batches, and ranges of offsets (first, last, deliveries)."""

    def __init__(self) -> None:
        self.batches: list[bytes] = []
        self.ranges: list[tuple[int, int, int]] = []
        self.size_bytes = 0
        self.records = 0


async def acquire(
    hall: Hall, queue: RunningQueue, partition: Partition, wanted: Wanted, lock_ms: int, holding: Holding
) -> Acquired:
    """Lease messages of a partition to a member. Raises LonghallError."""
    lane = partition.lane
    for _ in range(STEPS_MAX):
        check_delivery(hall, queue)
        if lane not in queue.queue.state.lanes:
            return Acquired()
        until = NO_LIMIT if wanted.may_scan else queue.queue.cursor(lane).scan
        outcome = decide_delivery(hall, queue, wanted.records_max, lock_ms, None, wanted.consumer, lane, until)
        if outcome.given:
            return await _deliver(hall, queue, partition, wanted, lock_ms, holding, outcome.given)
        if outcome.status is Status.COLD:
            await warm(hall, queue, outcome.cold_lane)
        elif outcome.status in (Status.DEATHS, Status.MORE):
            await asyncio.sleep(0)  # A long scan is cut into pieces, so that other requests come between.
        else:
            break
    return Acquired()


async def _deliver(
    hall: Hall,
    queue: RunningQueue,
    partition: Partition,
    wanted: Wanted,
    lock_ms: int,
    holding: Holding,
    given: list[Given],
) -> Acquired:
    is_kept = queue.settings.delivery != "at-most-once"
    holding.add(given, is_kept)
    acquired = Acquired()
    reader = _BatchReader(hall, partition, wanted.bytes_max)
    at = 0
    joined_bytes = 0
    while at < len(given):
        offset = given[at].candidate.offset
        batch = await reader.find(offset)
        if batch is None:
            break
        header, data = batch
        large_bytes = large_bytes_of(hall, data, header, partition.lane)
        if large_bytes:
            joined_bytes += large_bytes
            if at and joined_bytes > JOINED_BYTES_MAX:
                break
            try:
                data = await join_batch(hall, data, header, partition.lane)
            except LonghallError:
                break  # It cannot be read at the moment, so nobody gets it.
        if not wanted.is_strict and header.next_offset > given[-1].candidate.offset + 1:
            last, until = given[-1].candidate.offset, header.next_offset
            room = wanted.room - len(given)
            given = [*given, *_rest_of_batch(hall, queue, partition, wanted, lock_ms, holding, last, until, room)]
        first = at
        while at < len(given) and given[at].candidate.offset < header.next_offset:
            at += 1
        acquired.batches.append(data)
        acquired.size_bytes += len(data)
        _add_ranges(acquired, given[first:at], wanted.batch_size)
    acquired.records = at
    if at < len(given):
        return_unseen(hall, queue, holding, given[at:])
    return acquired


def _rest_of_batch(
    hall: Hall,
    queue: RunningQueue,
    partition: Partition,
    wanted: Wanted,
    lock_ms: int,
    holding: Holding,
    last: int,
    until: int,
    room: int,
) -> list[Given]:
    """Lease the rest of the last batch, from `last` to `until` (both exclusive), which the client gets anyway; at most
    `room` messages of it.
    """
    lane = partition.lane
    if queue.removed or lane not in queue.queue.state.lanes or not wanted.may_scan:
        return []
    count = min(until - queue.queue.cursor(lane).scan, room)
    if count <= 0:
        return []
    outcome = decide_delivery(hall, queue, count, lock_ms, None, wanted.consumer, lane, until)
    holding.add(outcome.given, queue.settings.delivery != "at-most-once")
    more = [one for one in outcome.given if last < one.candidate.offset < until]
    if len(more) < len(outcome.given):  # Messages of other batches were returned while this one was read.
        return_unseen(hall, queue, holding, [one for one in outcome.given if one not in more])
    return more


def _add_ranges(acquired: Acquired, given: list[Given], batch_size: int) -> None:
    """Add the offsets of one batch as ranges; a range of at least `batch_size` ends with its batch."""
    begins = True
    for one in given:
        offset = one.candidate.offset
        count = deliveries_of(one)
        last = acquired.ranges[-1] if acquired.ranges else None
        joins = last is not None and last[1] + 1 == offset and last[2] == count
        if last is not None and joins and not (begins and last[1] - last[0] + 1 >= batch_size):
            acquired.ranges[-1] = (last[0], offset, count)
        else:
            acquired.ranges.append((offset, offset, count))
        begins = False


def deliveries_of(given: Given) -> int:
    """All deliveries of a message as the protocol shows them, with those of the queue from which it was moved here."""
    record = given.candidate.payload
    before = 0
    if isinstance(record, Record) and record.headers:
        for name, value in record.headers:
            if name == ATTEMPTS and value is not None and value.isdigit():
                before = int(value)
    return min(before + given.attempts, DELIVERIES_SHOWN_MAX)


def return_unseen(hall: Hall, queue: RunningQueue, holding: Holding | None, given: list[Given]) -> None:
    """Return messages that the reply does not contain."""
    for one in given:
        offset = one.candidate.offset
        if holding is not None:
            holding.drop(offset)
        if queue.removed or one.lane not in queue.lanes:
            continue
        returned = queue.queue.decide_unseen(hall.time.now_ms(), one.lane, offset, one.number, at_once=True)
        if not isinstance(returned, Code):
            write_queue(hall, queue, [returned])


def return_range(
    hall: Hall, queue: RunningQueue, holding: Holding, acquired: Acquired, first: int, behind: int, *, at_once: bool
) -> None:
    """Return what was acquired from `first` to `behind` (exclusive), now or when the lease ends, without an attempt."""
    kept: list[tuple[int, int, int]] = []
    for start, last, count in acquired.ranges:
        if start < first:
            kept.append((start, min(last, first - 1), count))
        if last >= behind:
            kept.append((max(start, behind), last, count))
        for offset in range(max(start, first), min(last + 1, behind)):
            lane, position = holding.place_of(offset)
            number = holding.numbers.get(offset, SETTLED)
            holding.drop(offset)
            if number == SETTLED or queue.removed or lane not in queue.lanes:
                continue
            returned = queue.queue.decide_unseen(hall.time.now_ms(), lane, position, number, at_once=at_once)
            if not isinstance(returned, Code):
                write_queue(hall, queue, [returned])
    acquired.ranges = kept
    acquired.records = sum(last - start + 1 for start, last, _ in kept)


@final
class _BatchReader:
    """Reads batches of a partition in the order of offsets, up to a number of bytes; the first one always."""

    def __init__(self, hall: Hall, partition: Partition, bytes_max: int) -> None:
        self._hall = hall
        self._partition = partition
        self._left_bytes = bytes_max
        self._is_first = True
        self._data = b""
        self._at = 0

    async def find(self, offset: int) -> tuple[BatchHeader, bytes] | None:
        """The batch with this offset; None if there is no room for it, or it cannot be read."""
        while True:
            while self._at < len(self._data):
                header = parse_header(self._data, self._at)
                if header.base_offset > offset:
                    return None
                start, end = self._at, self._at + header.size_bytes
                if header.next_offset > offset:
                    if header.size_bytes > self._left_bytes and not self._is_first:
                        return None
                    self._is_first = False
                    self._left_bytes -= header.size_bytes
                    self._at = end
                    return header, self._data[start:end]
                self._at = end
            self._data = await self._read(offset)
            self._at = 0
            if not self._data:
                return None

    async def _read(self, offset: int) -> bytes:
        partition = self._partition
        supplied: Supplied | None = None
        while not partition.deleted:
            read = partition.log.read(offset, READ_BYTES, partition.high_watermark, supplied)
            if read.cold is None:
                return b"".join(read.buffers) if read.code is None else b""
            supplied = await supply(self._hall, PartitionFetch(partition, 0, 0, -1), read.cold)
        return b""

"""Measurement of a queue: its depth, the age of its oldest message, and its counters.

All answers come from memory: a scrape reads ten thousand queues and must not wait for the disk. If the oldest message
is not in memory, its age is an estimate from the index or the segment.
"""

from __future__ import annotations

from typing import Final

from longhall.broker.hall import Hall
from longhall.broker.partition import Partition
from longhall.broker.queues.running_queue import RunningQueue
from longhall.queues.messages import Counts, Depth
from longhall.records.batch import HEADER_BYTES, parse_header

UNKNOWN: Final = -1


def depth_of(hall: Hall, queue: RunningQueue) -> Depth:
    """The depth of a queue."""
    now_ms = hall.time.now_ms()
    available = waiting_messages(hall, queue)
    oldest_ms = oldest_since_ms(queue)
    topic = hall.catalogue.by_id[queue.entry.topic_id]
    return Depth(
        available=available,
        in_flight=queue.queue.in_flight + queue.queue.held_back,
        delayed=queue.staging.count,
        bytes=sum(partition.log.bytes_kept() for partition in queue.lanes.values()),
        oldest_age_ms=max(now_ms - oldest_ms, 0) if oldest_ms != UNKNOWN else 0,
        parts=topic.open_count,
        parts_going=topic.shown_count - topic.open_count,
        generation=topic.generation,
    )


def waiting_messages(hall: Hall, queue: RunningQueue) -> int:
    """The messages of a queue that can be delivered now."""
    queue.queue.tick(hall.time.now_ms())
    available = queue.available()
    has_gaps = queue.deduplicates or queue.settings.delay_ms > 0  # In batches of idempotent producers.
    if queue.has_priority_lanes or queue.filter is not None or has_gaps:  # Not every offset is a message of the queue.
        outstanding = queue.queue.in_flight + queue.queue.held_back
        available = min(available, max(0, queue.queue.state.messages - outstanding))
    return available


def counts_of(queue: RunningQueue) -> Counts:
    """The counters of a queue. Deliveries, outlived leases and deaths count since its creation."""
    state = queue.queue.state
    return Counts(
        sends=queue.sends,
        deliveries=state.next_number - 1,
        settles=queue.settles,
        outlived=state.processing_times.outlived,
        safe_lease_ms=state.processing_times.safe_lease_ms(),
        deaths=dict(state.deaths),
        fates=dict(queue.fates),
        fates_lost=queue.fates_lost,
    )


def oldest_since_ms(queue: RunningQueue) -> int:
    """Since when the oldest deliverable message has been available; UNKNOWN if there is none."""
    found = UNKNOWN
    for lane, partition in queue.lanes.items():
        offset = queue.queue.first_waiting(lane, partition.high_watermark)
        if offset < 0:
            queue.oldest.pop(lane, None)
            continue
        known = queue.oldest.get(lane)
        if known is None or known[0] != offset:
            # Cached, because the same message is the oldest in many calls.
            known = queue.oldest[lane] = (offset, _since_ms(queue, partition, offset))
        if found == UNKNOWN or known[1] < found:
            found = known[1]
    return found


def _since_ms(queue: RunningQueue, partition: Partition, offset: int) -> int:
    log = partition.log
    offset = max(offset, log.start_offset)
    read = log.read(offset, 1, partition.high_watermark)
    if read.cold is None and read.code is None and read.buffers:
        header = parse_header(bytes(read.buffers[0][:HEADER_BYTES]), 0)
        return header.base_timestamp_ms if header.base_offset >= offset else header.max_timestamp_ms
    for segment in reversed(log.segments):
        if segment.base_offset <= offset:
            if segment.index is not None and len(segment.index):
                return segment.index.timestamp_for_offset(offset - segment.base_offset)
            return segment.created_ms
    return queue.entry.created_ms

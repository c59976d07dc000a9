"""The log cleaner: retention and compaction of partitions.

Retention moves the start of a log past segments that are too old or too many; the new start is committed first, and the
next checkpoint removes the files. `settled_cleaner` removes settled messages. Compaction keeps the last message of
every key: the janitor writes new segments beside the old ones, and the cleaner swaps them between two turns of the
loop, so that no reader sees a partial change. Messages that must be archived first are never removed (`archive_hold`).
"""

from __future__ import annotations

import asyncio
import logging
from typing import Any, Final, final

from longhall.broker.archive_hold import archived_end
from longhall.broker.events import LogTrimmed, SegmentClosed
from longhall.broker.feature_gates import may_close_segments
from longhall.broker.hall import Hall
from longhall.broker.partition import Partition
from longhall.broker.queues.delivery.scan_advance import advance_scan
from longhall.broker.queues.upkeep.recount import recount
from longhall.broker.settled_cleaner import SettledCleaner, install, tidy
from longhall.broker.waiting import committed
from longhall.errors import LonghallError
from longhall.log.layout import partition_directory
from longhall.log.segment import Segment
from longhall.shards.shard import PARTITIONS

PARTITIONS_A_TURN: Final = 64
CHECKPOINT_MS_MIN: Final = 10_000  # Since the last checkpoint, before compaction asks for another one.

_log = logging.getLogger("longhall.clean")


@final
class LogCleaner:
    """Retention, compaction and cleaning of settled messages for all partitions of one hall."""

    def __init__(self, hall: Hall) -> None:
        self._hall = hall
        self._settled = SettledCleaner(hall)
        self._tidied: set[int] = set()  # Partitions whose leftover files of a crash are removed.
        self.waits_for_checkpoint = False  # A compaction that is due needs a checkpoint first, as of the last run.

    async def run(self) -> None:
        """Clean every partition once."""
        self.waits_for_checkpoint = False
        for at, partition in enumerate(list(self._hall.partitions.values())):
            if at % PARTITIONS_A_TURN == 0:
                await asyncio.sleep(0)
            if partition.deleted or not partition.log.segments:
                continue
            try:
                await self._look_at(partition)
            except (OSError, LonghallError) as error:  # One damaged partition must not stop the others.
                _log.warning(
                    "cleaning a partition failed",
                    extra={"topic": partition.topic, "partition": partition.number, "reason": str(error)},
                )

    async def _look_at(self, partition: Partition) -> None:
        if partition.producers is not None:
            partition.producers.expire(self._hall.time.now_ms(), self._hall.options.producer_expiry_ms)
        if partition.options.deletes:
            await self._retain(partition)
            if partition.has_priority_lanes:
                await advance_scan(self._hall, partition)
            await self._settled.clean(partition)
        # A copy might have an old value, and never get the tombstone that was removed meanwhile.
        if partition.options.compacts and partition.options.moves.of(partition.number) is None:
            await self._compact(partition)

    async def _retain(self, partition: Partition) -> None:
        hall = self._hall
        options = partition.options
        log = partition.log
        limit = min(partition.last_stable_offset, archived_end(hall, partition))
        start = log.start_for_retention(hall.time.now_ms(), options.retention_ms, options.retention_bytes, limit)
        if start > log.start_offset and hall.flush_tail(partition):
            event = LogTrimmed(partition=log.partition, start_offset=start)
            began = log.start_offset
            hall.append_event(partition.shard, PARTITIONS, event)
            hall.trim(partition, start)
            recount(hall, partition, began)
            await committed(hall, partition.shard)
            _log.info("retention removed old messages", extra=_place(partition, start))

    async def _compact(self, partition: Partition) -> None:
        """Compact closed, stable and checkpointed segments, if enough of them is dirty or one of them has waited for
        `max.compaction.lag.ms`. What only lacks a checkpoint asks for one.
        """
        hall = self._hall
        log = partition.log
        directory = partition_directory(log.partition)
        await tidy(hall, partition, self._tidied)
        now_ms = hall.time.now_ms()
        limit = min(partition.last_stable_offset, archived_end(hall, partition))
        await self._close_active(partition, now_ms, limit)
        closed = [segment for segment in log.closed_segments if segment.next_offset <= limit]
        closed = _old_enough(closed, now_ms - partition.options.compaction_lag_min_ms)
        segments = [segment for segment in closed if segment.next_offset <= log.safe_offset]
        if len(segments) < len(closed) and _is_due(closed, partition, now_ms):
            self.waits_for_checkpoint = True
            hall.checkpoint_wanted |= now_ms - hall.checkpointed_ms >= CHECKPOINT_MS_MIN
        if not _is_due(segments, partition, now_ms):
            return
        producers = partition.producers
        arguments: dict[str, object] = {
            "directory": directory,
            "segments": [(segment.base_offset, segment.size_bytes) for segment in segments],
            "dirty_from": max(log.cleaned_offset, segments[0].base_offset),
            "until_offset": segments[-1].next_offset,
            "now_ms": now_ms,
            "delete_retention_ms": partition.options.delete_retention_ms,
            "aborted": producers.aborted_ranges() if producers is not None else [],
            "producers": [producer.producer_id for producer in producers.active()] if producers is not None else [],
        }
        result: Any = await hall.world.janitor.run("compact_segments", arguments)
        for base_offset in result["damaged"]:
            partition.report_damage(base_offset)
        for changed in result["segments"]:
            await install(hall, partition, changed, wanted=True)
        log.cleaned_offset = result["cleaned_until"]
        _log.info("a partition was compacted", extra=_place(partition, log.cleaned_offset))

    async def _close_active(self, partition: Partition, now_ms: int, limit: int) -> None:
        """Close an active segment whose first message has waited for `max.compaction.lag.ms`: without a further
        message it would never be compacted. The event makes every replica close it at the same offset.
        """
        log = partition.log
        if not log.segments:
            return  # Retention has removed every segment of a topic with both policies.
        active = log.segments[-1]
        is_old = now_ms - active.created_ms >= partition.options.compaction_lag_max_ms
        if is_old and not log.is_closed and active.next_offset <= limit and may_close_segments(self._hall):
            log.close_active()  # First, because its index may be unreadable.
            self._hall.append_event(partition.shard, PARTITIONS, SegmentClosed(partition=log.partition))
            self._hall.flush_tail(partition)
            await committed(self._hall, partition.shard)


def _is_due(segments: list[Segment], partition: Partition, now_ms: int) -> bool:
    """True if enough of these segments is dirty, or the first dirty one is too old to wait."""
    dirty = [segment for segment in segments if segment.next_offset > partition.log.cleaned_offset]
    if not dirty:
        return False
    if now_ms - dirty[0].created_ms >= partition.options.compaction_lag_max_ms:
        return True
    dirty_bytes = sum(segment.size_bytes for segment in dirty)
    return dirty_bytes >= sum(segment.size_bytes for segment in segments) * partition.options.dirty_ratio_min


def _place(partition: Partition, offset: int) -> dict[str, object]:
    return {"topic": partition.topic, "partition": partition.number, "offset": offset}


def _old_enough(segments: list[Segment], until_ms: int) -> list[Segment]:
    """The leading segments whose newest message is not newer than `until_ms`."""
    old: list[Segment] = []
    for segment in segments:
        if segment.max_timestamp_ms > until_ms:
            break
        old.append(segment)
    return old

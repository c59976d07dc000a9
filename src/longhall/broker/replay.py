"""Replay: apply entries of the log in its order, from an earlier run of this node or from a leader.

Events and batches go through the same `apply` and `fold` as when they were appended, so the state is the same. A replay
never appends: the consequences of an entry are later entries of the log.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, final

import msgspec

from longhall.broker.events import (
    EpochStarted,
    OffsetsSkipped,
    PartitionEvent,
    ProducersCopied,
    ReplicasNoted,
    SegmentClosed,
    SegmentsDropped,
    StateMarked,
    catalogue_decoder,
    partition_decoder,
    shard_decoder,
)
from longhall.broker.hall import Hall
from longhall.broker.state_digest import pass_mark
from longhall.broker.usage.usage_events import usage_decoder
from longhall.errors import LonghallError
from longhall.log.frames import (
    BATCH,
    BATCH_CONTINUED,
    BATCH_CONTINUES,
    CONTINUED,
    CONTINUES,
    EVENT,
    STARTS_SEGMENT,
    Entry,
)
from longhall.log.wal import Damage
from longhall.queues.auxiliary_events import MoveEvent, ParcelEvent, StagingEvent, WholeFreed, WholeHeld, WholeMade
from longhall.queues.events import decoder as queue_decoder
from longhall.queues.outbox_events import outbox_decoder
from longhall.records.batch import parse_header
from longhall.shards.shard import CATALOGUE, GROUPS, MOVES, OUTBOX, PARCELS, QUEUES, SHARD, STAGING, TRANSACTIONS, USAGE
from longhall.shards.shard import PARTITIONS as PARTITION_EVENTS
from longhall.topics.events import GroupEvent, TransactionEvent

_group_decoder = msgspec.msgpack.Decoder(GroupEvent)
_transaction_decoder = msgspec.msgpack.Decoder(TransactionEvent)
_staging_decoder = msgspec.msgpack.Decoder(StagingEvent)
_move_decoder = msgspec.msgpack.Decoder(MoveEvent)
_parcel_decoder = msgspec.msgpack.Decoder(ParcelEvent)


@final
class Recovered:
    """The report of a recovery, for the log and the metrics."""

    def __init__(self) -> None:
        self.entries = 0
        self.end = 0  # Where the log ends.
        self.cut_bytes = 0  # Bytes after its end: torn writes, or damage of the last second.
        self.corrected: list[int] = []  # Positions of corrected bit flips.
        self.damage: list[Damage] = []
        self.skipped = 0  # Entries that depend on a damaged part of the log.


@final
class Replay:
    """Applies entries to one hall. `on_mark` handles digest marks."""

    def __init__(
        self,
        hall: Hall,
        waiting: dict[int, list[Any]],
        report: Recovered,
        parts: dict[int, bytes] | None = None,
        batch_parts: dict[int, list[bytes]] | None = None,
    ) -> None:
        self.on_mark: Callable[[StateMarked], None] = partial(pass_mark, hall)
        self._hall = hall
        self._waiting = waiting
        self._report = report
        # By shard: the beginning of an event that spans several entries.
        self._parts: dict[int, bytes] = {} if parts is None else parts
        self._batch_parts: dict[int, list[bytes]] = {} if batch_parts is None else batch_parts  # The same of a batch.

    def take(self, entry: Entry) -> None:
        """Apply one entry. Entries that depend on a damaged part of the log are skipped and counted."""
        self._report.entries += 1
        shard = self._hall.shards[entry.shard]
        shard.sequence = shard.committed = entry.sequence
        shard.epoch = max(shard.epoch, entry.epoch)
        try:
            if entry.kind == EVENT:
                self._take_event(entry)
            else:
                self._take_batch(entry)
        except (KeyError, ValueError, AssertionError, LonghallError):
            if not self._report.damage:
                raise
            self._report.skipped += 1

    def _take_batch(self, entry: Entry) -> None:
        hall = self._hall
        stored = entry.batch()
        flags = entry.flags
        if entry.kind == BATCH:
            if flags & (BATCH_CONTINUED | BATCH_CONTINUES):
                joined = self._join(entry)
                if joined is None:
                    return
                stored, flags = joined
            else:
                self._batch_parts.pop(entry.shard, None)  # A crash truncated it before it was acknowledged.
        partition = hall.partitions.get(entry.partition())
        if partition is None:
            return  # Its topic was deleted later.
        now_ms = hall.time.now_ms()
        header = parse_header(stored, 0)
        if entry.kind == BATCH:
            partition.log.replay_batch(header, stored, flags, now_ms)
            hall.note_tail(partition, header.size_bytes)
        else:
            hall.flush_tail(partition)
            partition.log.replay_reference(header, entry.segment_position(), flags, now_ms)
            hall.referenced_bytes += header.size_bytes
        partition.fold(header, stored, now_ms)
        partition.high_watermark = header.next_offset

    def _join(self, entry: Entry) -> tuple[bytes, int] | None:
        """The batch and the flags of its first entry, if this is its last entry; else None."""
        if entry.flags & BATCH_CONTINUES:
            parts = self._batch_parts.get(entry.shard)
            if parts is None:
                return None  # Its first entry is lost.
        else:
            parts = self._batch_parts[entry.shard] = [bytes((entry.flags,))]
        parts.append(entry.batch())
        if entry.flags & BATCH_CONTINUED:
            return None
        del self._batch_parts[entry.shard]
        return b"".join(parts[1:]), parts[0][0] & STARTS_SEGMENT

    def _take_event(self, entry: Entry) -> None:
        self._batch_parts.pop(entry.shard, None)  # A crash truncated it before it was acknowledged.
        event = entry.event()
        if entry.flags & CONTINUES:
            before = self._parts.pop(entry.shard, None)
            if before is None:
                return  # Its first entry is lost.
            event = before + event
        if entry.flags & CONTINUED:
            self._parts[entry.shard] = event
            return
        self._parts.pop(entry.shard, None)  # A crash truncated it before it was acknowledged.
        self._apply(entry.shard, entry.room(), event)

    def _apply(self, shard: int, room: int, event: bytes) -> None:
        hall = self._hall
        if room == CATALOGUE:
            hall.apply_catalogue(catalogue_decoder.decode(event), replayed=True)
            if self._waiting:
                restore_partitions(hall, self._waiting)
        elif room == GROUPS:
            hall.groups[shard - 1].apply(_group_decoder.decode(event), hall.time.now_ms())
        elif room == TRANSACTIONS:
            hall.transactions[shard - 1].apply(_transaction_decoder.decode(event))
        elif room == PARTITION_EVENTS:
            self._apply_to_partition(partition_decoder.decode(event))
        elif room == QUEUES:
            changed = queue_decoder.decode(event)
            queue = hall.queues.get(changed.queue)
            if queue is not None:
                queue.apply(changed)
        elif room == STAGING:
            staged = _staging_decoder.decode(event)
            queue = hall.queues.get(staged.queue)
            if queue is not None:
                queue.staging.apply(staged)
        elif room == MOVES:
            hall.redrives[shard - 1].apply(_move_decoder.decode(event))
        elif room == PARCELS:
            parcel = _parcel_decoder.decode(event)
            if isinstance(parcel, WholeMade | WholeHeld | WholeFreed):
                hall.chunked_messages[shard - 1].apply(parcel)
            else:
                hall.uploads[shard - 1].apply(parcel)
        elif room == OUTBOX:
            hall.outboxes.apply(outbox_decoder.decode(event))
        elif room == USAGE:
            hall.usage.totals.apply(usage_decoder.decode(event))
        elif room == SHARD:
            noted = shard_decoder.decode(event)
            if isinstance(noted, EpochStarted):
                hall.shards[shard].epoch = noted.epoch
            elif isinstance(noted, ReplicasNoted) and hall.replica is not None:
                hall.replica.replicas = frozenset(noted.replicas)
            elif isinstance(noted, StateMarked):
                self.on_mark(noted)

    def _apply_to_partition(self, event: PartitionEvent) -> None:
        partition = self._hall.partitions.get(event.partition)
        if partition is None:
            return
        if isinstance(event, SegmentsDropped):
            self._hall.drop_segments(partition, event.base_offsets)
            return
        if isinstance(event, SegmentClosed):
            partition.log.close_active()
            return
        if isinstance(event, ProducersCopied):
            partition.table().restore(event.state, self._hall.time.now_ms())
            return
        if isinstance(event, OffsetsSkipped):
            partition.log.skip_to(event.next_offset)
            partition.high_watermark = max(partition.high_watermark, event.next_offset)
            return
        self._hall.trim(partition, event.start_offset)
        partition.high_watermark = max(partition.high_watermark, event.start_offset)


def restore_partitions(hall: Hall, waiting: dict[int, list[Any]]) -> None:
    """Restore the snapshots of partitions that exist by now."""
    now_ms = hall.time.now_ms()
    for number in list(waiting):
        partition = hall.partitions.get(number)
        if partition is not None:
            partition.restore(waiting.pop(number), now_ms)

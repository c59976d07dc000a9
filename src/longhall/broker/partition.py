"""One partition: its log, its producers, and its high watermark.

`high_watermark` is the offset after the last committed record. `committed` moves it, so a reader never sees a record
that can be lost. The class makes no decisions: its callers decide what to append.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, final

from mypy_extensions import mypyc_attr

from longhall.broker.configuration import TopicOptions
from longhall.broker.placement import is_elsewhere
from longhall.broker.traffic import Traffic
from longhall.log.partition import PartitionLog
from longhall.records.batch import BatchHeader
from longhall.records.control import parse_marker
from longhall.shards.shard import Committable, Shard
from longhall.topics.producers import ProducerTable


@mypyc_attr(allow_interpreted_subclasses=True)
class Watcher:
    """A reader that waits for new data."""

    def more(self, partition: Partition) -> None:
        """The high watermark has moved."""
        raise NotImplementedError


@mypyc_attr(allow_interpreted_subclasses=True)
class Listener:
    """A state that follows from the batches of a partition, such as a queue."""

    def on_batch(self, partition: Partition, header: BatchHeader, stored: bytes, now_ms: int) -> None:
        """Apply an appended or replayed batch; for a large one `stored` may be the header alone."""
        raise NotImplementedError

    def on_sent(self, count: int) -> None:
        """Count messages that a producer sent; not called in a replay."""
        raise NotImplementedError

    @property
    def wants_bodies(self) -> bool:
        """True if `stored` must always be the complete batch."""
        raise NotImplementedError


@final
class Partition(Committable):
    """The log, the producer table and the readers of one partition."""

    def __init__(
        self, topic: str, topic_id: bytes, number: int, shard: Shard, log: PartitionLog, options: TopicOptions
    ) -> None:
        self.topic = topic
        self.topic_id = topic_id
        self.number = number
        self.shard = shard
        self.log = log
        self.lane = log.partition  # The number by which queues know the log. A log that was copied keeps its number.
        self.options = options
        self.traffic = Traffic()  # Shared with the other partitions of the topic.
        self.producers: ProducerTable | None = None
        self.high_watermark = 0
        self.watchers: dict[Watcher, None] = {}  # In the order of arrival.
        self.listeners: list[Listener] = []
        self.deleted = False
        self.elsewhere = False  # True if another group serves it: see `broker/placement.py`.
        self.epoch_base = 0  # Added to the leader epoch of the group: see `topics/partition_moves.py`.
        self.parted = False  # True for a part of a queue that grows: see `broker/queues/upkeep/resizer.py`.
        self.has_rules = False  # True if it belongs to a queue, whose rules hold for every producer.
        self.has_priority_lanes = False  # True if messages with a priority are copied to the lane of their level.

    def committed(self, value: int) -> None:
        """Move the high watermark to `value` and wake the watchers."""
        if value > self.high_watermark:
            self.high_watermark = value
            if self.watchers:
                self.wake()

    def wake(self) -> None:
        """Wake and remove all watchers."""
        watchers = self.watchers
        self.watchers = {}
        for watcher in watchers:
            watcher.more(self)

    def report_damage(self, offset: int, repaired: Callable[[], None] | None = None) -> bool:
        """Report an unreadable message. True if a repair from another replica was requested; `repaired` is called when
        a retry is useful.
        """
        feed = self.shard.feed
        return feed is not None and feed.damage_found(self.log.partition, offset, repaired or _ignore_repair)

    def configure(self, options: TopicOptions) -> None:
        """Take new settings of the topic."""
        self.options = options
        self.log.segment_bytes = options.segment_bytes
        self.log.segment_ms = options.segment_ms_of(self.log.partition)

    def place(self, options: TopicOptions, wing: int) -> None:
        """Learn from the settings of the topic whether the group `wing`, which this hall is, serves the partition."""
        was = self.elsewhere
        self.elsewhere = is_elsewhere(options.wings, options.moves, self.number, wing)
        self.epoch_base = options.moves.epoch_base(self.number)
        if self.elsewhere and not was:
            self.wake()  # Readers that wait learn that another group serves it.

    @property
    def last_stable_offset(self) -> int:
        """The end for readers of committed transactions."""
        producers = self.producers
        if producers is None:
            return self.high_watermark
        return producers.last_stable_offset(self.high_watermark)

    @property
    def epoch(self) -> int:
        """The leader epoch that clients see."""
        return self.epoch_base + self.shard.epoch

    def end_of_epoch(self, epoch: int) -> tuple[int, int]:
        """The largest leader epoch not above `epoch`, and its end offset; (-1, -1) if there is none."""
        if epoch == self.epoch:
            return epoch, self.high_watermark
        found, end = self.log.epochs.end_of(epoch, self.high_watermark)
        return found, min(end, self.high_watermark)

    def table(self) -> ProducerTable:
        """The producer table, created on first use."""
        if self.producers is None:
            self.producers = ProducerTable()
        return self.producers

    def fold(self, header: BatchHeader, stored: bytes, now_ms: int) -> None:
        """Apply a batch to the tables that follow from the log; `stored` must be complete for a control batch."""
        for listener in self.listeners:
            listener.on_batch(self, header, stored, now_ms)
        if header.producer_id < 0:
            return
        if header.is_control:
            marker = parse_marker(stored, 0, header)
            if marker is not None:
                self.table().apply_marker(header, header.base_offset, marker.commit, marker.coordinator_epoch, now_ms)
        else:
            self.table().apply(header, header.base_offset, now_ms)

    @property
    def wants_bodies(self) -> bool:
        """True if a replay needs every complete batch in the write-ahead log."""
        for listener in self.listeners:
            if listener.wants_bodies:
                return True
        return False

    def snapshot(self) -> list[Any]:
        """For `restore`; valid once the tail is flushed and synced."""
        producers = self.producers.snapshot() if self.producers is not None else None
        return [self.log.snapshot(), producers]

    def restore(self, state: list[Any], now_ms: int) -> None:
        """Take the state of a `snapshot`; all of it is committed."""
        self.log.restore(state[0])
        self.high_watermark = self.log.next_offset
        if state[1] is not None:
            self.table().restore(state[1], now_ms)


def _ignore_repair() -> None:
    """For callers that retry by themselves."""

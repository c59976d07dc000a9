"""One partition while it is led here: its log, its producers, and how far readers may see.

`high_watermark` is the offset behind the last committed record. It only moves in `committed`, so a reader never sees
what could still be lost. This class appends what others have decided to append; it asks nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, final

from mypy_extensions import mypyc_attr

from longhall.broker.configuration import TopicOptions
from longhall.broker.traffic import Traffic
from longhall.log.partition import PartitionLog
from longhall.records.batch import BatchHeader
from longhall.records.control import parse_marker
from longhall.shards.shard import Committable, Shard
from longhall.topics.producers import ProducerTable


@mypyc_attr(allow_interpreted_subclasses=True)
class Watcher:
    """Somebody who waits for more to read."""

    def more(self, partition: Partition) -> None:
        """The high watermark moved."""
        raise NotImplementedError


@mypyc_attr(allow_interpreted_subclasses=True)
class Listener:
    """Somebody whose state follows from the batches of a partition: a queue that stands on it."""

    def on_batch(self, partition: Partition, header: BatchHeader, stored: bytes, now_ms: int) -> None:
        """A batch was appended, now or before a replay; `stored` may be its header alone when it is large."""
        raise NotImplementedError

    def on_sent(self, count: int) -> None:
        """A producer sent so many messages, now: a replay does not say it again."""
        raise NotImplementedError

    @property
    def wants_bodies(self) -> bool:
        """Whether `stored` must always be whole."""
        raise NotImplementedError


@final
class Partition(Committable):
    """See the module."""

    def __init__(
        self, topic: str, topic_id: bytes, number: int, shard: Shard, log: PartitionLog, options: TopicOptions
    ) -> None:
        self.topic = topic
        self.topic_id = topic_id
        self.number = number
        self.shard = shard
        self.log = log
        self.options = options
        self.traffic = Traffic()  # Shared with the other partitions of the topic.
        self.producers: ProducerTable | None = None
        self.high_watermark = 0
        self.watchers: dict[Watcher, None] = {}  # In the order they came.
        self.listeners: list[Listener] = []
        self.deleted = False
        self.elsewhere = False  # Whether another hall has its messages: see `broker/placement.py`. Nothing is here.
        self.parted = False  # Whether it is a part of a queue that grows: see `broker/queues/upkeep/resizer.py`.
        self.has_priority_lanes = False  # Whether messages with a priority get a copy in the lane of their level.

    def committed(self, value: int) -> None:
        """Everything before the offset `value` is committed."""
        if value > self.high_watermark:
            self.high_watermark = value
            if self.watchers:
                self.wake()

    def wake(self) -> None:
        """Tell everybody who waits, once."""
        watchers = self.watchers
        self.watchers = {}
        for watcher in watchers:
            watcher.more(self)

    def tell_damage(self, offset: int, told: Callable[[], None] | None = None) -> bool:
        """A message cannot be read here. Whether another node may have it, and is asked: `told` hears when it is worth
        another try.
        """
        feed = self.shard.feed
        return feed is not None and feed.damage_found(self.log.partition, offset, told or _nobody_waits)

    def configure(self, options: TopicOptions) -> None:
        """The topic has other settings now."""
        self.options = options
        self.log.segment_bytes = options.segment_bytes
        self.log.segment_ms = options.segment_ms

    @property
    def last_stable_offset(self) -> int:
        """Up to where readers of committed transactions may see."""
        producers = self.producers
        if producers is None:
            return self.high_watermark
        return producers.last_stable_offset(self.high_watermark)

    def end_of_epoch(self, epoch: int) -> tuple[int, int]:
        """The largest epoch not above `epoch` that wrote here, and where it ended; (-1, -1) if there is none."""
        if epoch == self.shard.epoch:
            return epoch, self.high_watermark
        found, end = self.log.epochs.end_of(epoch, self.high_watermark)
        return found, min(end, self.high_watermark)

    def table(self) -> ProducerTable:
        """The producers of this partition, made when the first one comes."""
        if self.producers is None:
            self.producers = ProducerTable()
        return self.producers

    def fold(self, header: BatchHeader, stored: bytes, now_ms: int) -> None:
        """Let the tables that follow from the log see a batch; `stored` must be whole when it is a control batch."""
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
        """Whether a replay must find every batch whole in the write-ahead log."""
        for listener in self.listeners:
            if listener.wants_bodies:
                return True
        return False

    def snapshot(self) -> list[Any]:
        """For `restore`, once the log's tail is flushed and synced."""
        producers = self.producers.snapshot() if self.producers is not None else None
        return [self.log.snapshot(), producers]

    def restore(self, state: list[Any], now_ms: int) -> None:
        """Take over what `snapshot` gave: everything in it was committed."""
        self.log.restore(state[0])
        self.high_watermark = self.log.next_offset
        if state[1] is not None:
            self.table().restore(state[1], now_ms)


def _nobody_waits() -> None:
    """Whoever cannot read something comes again by himself."""

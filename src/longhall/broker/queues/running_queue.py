"""One queue while it is led here: its cursor, what is staged, what was sent lately, and the logs it stands on.

State and folds only; what can be done with a queue is in the verbs beside this file. `on_batch` is the fold over its
logs: called for every batch that is appended to one of them, whoever sent it, and again in a replay.
"""

from __future__ import annotations

import asyncio
import zlib
from typing import Any, Final, final

import msgspec

from longhall.broker.partition import Listener, Partition
from longhall.broker.queue_catalogue import QueueEntry
from longhall.broker.queues.delivery.delivery_cache import DeliveryCache
from longhall.broker.queues.delivery.waiters import Waiters
from longhall.broker.queues.delivery.window import Window
from longhall.queues.deduplication import NO_LANE, DeduplicationWindow, fingerprint
from longhall.queues.envelope import body_bytes_of, decode_record, due_of, priority_of, sent_as, whole_of
from longhall.queues.messages import QueueView
from longhall.queues.outcomes import Candidate
from longhall.queues.queue import Queue
from longhall.queues.receipts import Receipts
from longhall.queues.receiver_filter import ReceiverFilter
from longhall.queues.selector import compile_filter
from longhall.queues.settings import QueueSettings
from longhall.queues.staging import Staging
from longhall.records.batch import BatchHeader, read_records
from longhall.records.control import parse_marker
from longhall.records.record import Record
from longhall.shards.shard import Shard

PRIORITY_BYTES_MAX: Final = 1024 * 1024  # Larger messages have no priority.

NEVER_EXPIRES: Final = 0
MAY_EXPIRE: Final = 1  # Nobody has looked since the start.
EXPIRES: Final = 2


@final
class RunningQueue(Listener):
    """See the module."""

    def __init__(self, entry: QueueEntry, shard: Shard, secret: bytes) -> None:
        self.entry = entry
        self.shard = shard
        self.number = entry.number
        self.queue = Queue(entry.number, entry.settings)
        self.staging = Staging(entry.number)
        self.sent = DeduplicationWindow()
        self.receipts = Receipts(secret, entry.number)
        self.lanes: dict[int, Partition] = {}  # What is given out, by partition id.
        self.route: list[Partition] = []  # Those of them that the topic shows.
        self.open_parts = 0  # So many of the route take messages; 0: all. The catalogue knows.
        self.has_marks = False  # Whether its groups may go from log to log, so that there may be some.
        self.levels: dict[int, Partition] = {}  # The others: messages with a priority, by their level.
        self.hidden: dict[int, Partition] = {}  # What is not due yet.
        self.windows: dict[int, Window] = {}
        self.waiters = Waiters(self.available)
        self.lease_timer: tuple[float, asyncio.Handle] | None = None  # When it rings because a lease ends, and what.
        self.receiver_filters: dict[str, ReceiverFilter] = {}  # By the text of their filter.
        self.deaths: dict[str, int] = {}  # By reason, since the start; for the metrics.
        self.sends = 0  # Since the start, like `deaths`.
        self.oldest: dict[int, tuple[int, int]] = {}  # By lane: the first that waits, and since when; see `measure`.
        self.view: QueueView | None = None  # As it was told last.
        self.delivery_cache = DeliveryCache()
        self.fates: dict[str, int] = {}  # Told to reply queues, since the start.
        self.fates_lost = 0  # Their reply queue was gone or full.
        self.expiry = MAY_EXPIRE  # Whether anybody has to look for messages whose time is over; see `expire`.
        self.removed = False
        self._letters_exist = entry.settings.dead_letters is not None
        self._turn = 0
        self._filter_text = entry.settings.filter
        self.filter = compile_filter(entry.settings.filter) if entry.settings.filter else None

    @property
    def acknowledgers(self) -> int:
        """Whom a send waits for: see `shards.shard`. A queue over a topic is acknowledged as the topic."""
        return self.route[0].options.acknowledge

    @property
    def counts_bytes(self) -> bool:
        """Whether the sizes of messages matter to the cursor."""
        return self.settings.bytes_max > 0

    @property
    def settings(self) -> QueueSettings:
        """As they are now."""
        return self.entry.settings

    def configured(self) -> None:
        """The catalogue has other settings for it."""
        self._letters_exist = self.settings.dead_letters is not None
        self.queue.configure(self.settings)
        for partition in self.route:
            partition.parted = partition.parted or self.grows
        if self.settings.filter != self._filter_text:
            self._filter_text = self.settings.filter
            self.filter = compile_filter(self._filter_text) if self._filter_text else None
            self.windows = {}  # What they keep was judged by another.

    def follow_letters(self, exist: bool) -> None:
        """Without a place for dead letters nothing dies of its attempts: it is given out again, not lost."""
        if exist != self._letters_exist:
            self._letters_exist = exist
            settings = self.settings if exist else msgspec.structs.replace(self.settings, dead_letters=None)
            self.queue.configure(settings)

    def add_lane(self, partition: Partition) -> None:
        """A log whose messages are given out."""
        self.lanes[partition.log.partition] = partition
        partition.listeners.append(self)
        if len(self.waiters):
            partition.watchers[self.waiters] = None  # Who waits does so for this one too.
        if partition.number < 0:
            self.levels[-partition.number] = partition
        else:
            self.route.append(partition)
            self.has_marks = self.settings.fifo and len(self.route) > 1
            partition.has_priority_lanes = partition.has_priority_lanes or self.has_priority_lanes
            partition.parted = partition.parted or self.grows

    def add_hidden(self, partition: Partition) -> None:
        """A log of messages that are not due yet."""
        self.hidden[partition.log.partition] = partition
        partition.listeners.append(self)

    def drop_hidden(self, number: int) -> None:
        """It is empty and gone."""
        self.hidden.pop(number, None)
        self.windows.pop(number, None)

    def main_lane(self) -> Partition:
        """Where a message goes that says nothing about it."""
        return self.route[0]

    def lane_for(self, priority: int, group: str) -> Partition:
        """The log for a message: by its group where there are several, so that a group stays in order.

        One with a priority goes there like any other, and its copy to the lane of its level: see `lift`.
        """
        lanes = self.route
        parts = self.open_parts or len(lanes)
        if parts == 1:
            return lanes[0]
        if group or self.settings.fifo:
            turn = zlib.crc32(group.encode())
        else:
            self._turn += 1
            turn = self._turn
        lane = lanes[turn % parts]
        if lane.elsewhere:  # A wing has only some of them.
            own = [one for one in lanes if not one.elsewhere]
            lane = own[turn % len(own)]
        return lane

    def sequence_of(self, lane: int, offset: int) -> int:
        """The number of a message by which its place in its group is told."""
        return self.queue.state.marks.sequence(lane, offset) if self.has_marks and lane != NO_LANE else offset

    def available(self) -> int:
        """How many messages could be given out, as far as leases are known to have ended."""
        return self.queue.waiting([(lane, partition.high_watermark) for lane, partition in self.lanes.items()])

    def window(self, number: int) -> Window:
        """Messages of a log near where somebody read last."""
        window = self.windows.get(number)
        if window is None:
            partition = self.lanes.get(number) or self.hidden[number]
            window = self.windows[number] = Window(partition, self)
        return window

    def peek(self, number: int, offset: int, count_max: int) -> list[Candidate] | None:
        """Messages of a lane as its cursor asks for them; None when they are cold."""
        return self.window(number).look(offset, count_max)

    @property
    def wants_bodies(self) -> bool:
        """Whether the fold must see every message, so that none may be in the log by reference only.

        Hidden logs are read by the fold as well, and share this answer.
        """
        return True

    def on_batch(self, partition: Partition, header: BatchHeader, stored: bytes, now_ms: int) -> None:
        """A batch stands in one of the logs."""
        number = partition.log.partition
        if header.is_control:
            self._end(number, header, stored)
            return
        if number in self.hidden:
            self.shard.opened += header.record_count
            for record in read_records(stored, 0):
                self.staging.appended(number, record.offset, due_of(record), now_ms)
        else:
            self._count(partition, header, stored)
        if self.settings.deduplication != "off" and partition.number >= 0:
            self.shard.opened += header.record_count
            self._remember(stored, number)

    def _count(self, partition: Partition, header: BatchHeader, stored: bytes) -> None:
        judged = self.judges(partition)
        if not judged and not self.settings.bytes_max:  # Nobody asks, and batches stay closed.
            self._sent(partition, header, header.record_count, 0)
            return
        records = read_records(stored, 0)
        if judged:
            records = [record for record in records if self.takes(partition, header, record)]
        size = sum(body_bytes_of(record) for record in records) if self.settings.bytes_max else 0
        self._sent(partition, header, len(records), size)

    def _sent(self, partition: Partition, header: BatchHeader, count: int, size: int) -> None:
        self.queue.apply_sent(count, size)
        if header.is_transactional:
            self.queue.state.uncommitted.sent(partition.log.partition, header.producer_id, count, size)

    def _end(self, number: int, header: BatchHeader, stored: bytes) -> None:
        state = self.queue.state
        if len(state.uncommitted):
            marker = parse_marker(stored, 0, header)
            if marker is not None:
                state.apply_ended(number, header.producer_id, marker.commit)

    @property
    def grows(self) -> bool:
        """Whether the number of its parts is its own affair."""
        return self.settings.parts_max > 1 and self.entry.owns_topic

    # Which messages of a log are in the queue

    @property
    def has_priority_lanes(self) -> bool:
        """Whether messages with a priority are given out from lanes of their own."""
        return self.settings.priorities > 1 and self.entry.owns_topic

    def judges(self, partition: Partition) -> bool:
        """Whether some of the messages in this log may not be in the queue, or not there."""
        if partition.number < 0 or partition.log.partition not in self.lanes:
            return False
        return self.has_priority_lanes or self.filter is not None

    def takes(self, partition: Partition, header: BatchHeader, record: Record) -> bool:
        """Whether this message of a log that is judged is given out from there."""
        if self.has_priority_lanes and self.level_of(header, record):
            return False
        return self.filter is None or self.filter.matches(decode_record(record, partition.log.partition))

    def level_of(self, header: BatchHeader, record: Record) -> int:
        """The lane of its level in which a message of an ordinary lane has its copy; 0: it has none.

        This follows from the record alone and never changes, because whoever scans the ordinary lane relies on it.
        Those of transactions have none, since nobody knows yet whether they count, and large ones are not copied.
        """
        if header.is_transactional or not record.headers:
            return 0
        priority = priority_of(record)
        if not priority or len(record.value or b"") > PRIORITY_BYTES_MAX or whole_of(record)[0]:
            return 0
        return min(priority, self.settings.priorities - 1)

    def on_sent(self, count: int) -> None:
        """A producer of the topic sent so many."""
        self.sends += count

    def _remember(self, stored: bytes, number: int) -> None:
        """What was sent with a deduplication id is known by it for a while. Moves within the queue are not sends."""
        settings = self.settings
        by_group = settings.deduplication_scope == "group"
        window_ms = settings.deduplication_window_ms
        for record in read_records(stored, 0):
            identity, group, message_id = sent_as(record)
            if identity:
                mark = fingerprint(identity, group if by_group else "")
                self.sent.remember(mark, message_id, record.offset, record.timestamp_ms, window_ms, number)

    def snapshot(self) -> list[Any]:
        """For `restore`."""
        return [self.queue.snapshot(), self.staging.snapshot(), self.sent.snapshot()]

    def restore(self, state: list[Any]) -> None:
        """Take over what `snapshot` gave."""
        self.queue.restore(state[0])
        self.staging.restore(state[1])
        self.sent.restore(state[2])

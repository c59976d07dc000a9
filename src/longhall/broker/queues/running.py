"""One queue while it is led here: its cursor, what is staged, what was sent lately, and the logs it stands on.

State and folds only; what can be done with a queue is in the verbs beside this file. `on_batch` is the fold over its
logs: called for every batch that is appended to one of them, whoever sent it, and again in a replay.
"""

from __future__ import annotations

import zlib
from typing import Any, final

import msgspec

from longhall.broker.partition import Listener, Partition
from longhall.broker.queue_catalogue import QueueEntry
from longhall.broker.queues.traces import Traces
from longhall.broker.queues.waiters import Waiters
from longhall.broker.queues.window import Window
from longhall.queues.deduplication import DeduplicationWindow, fingerprint
from longhall.queues.envelope import body_bytes_of, decode_record, due_of
from longhall.queues.outcomes import Candidate
from longhall.queues.queue import Queue
from longhall.queues.receipts import Receipts
from longhall.queues.settings import QueueSettings
from longhall.queues.staging import Staging
from longhall.queues.wish import Wish
from longhall.records.batch import BatchHeader, read_records
from longhall.shards.shard import Shard


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
        self.hidden: dict[int, Partition] = {}  # What is not due yet.
        self.windows: dict[int, Window] = {}
        self.waiters = Waiters()
        self.wishes: dict[str, Wish] = {}  # By the text of their filter.
        self.working = False  # Whether somebody moves what is due at the moment.
        self.deaths: dict[str, int] = {}  # By reason, since the start; for the metrics.
        self.sends = 0  # Since the start, like `deaths`.
        self.oldest: dict[int, tuple[int, int]] = {}  # By lane: the first that waits, and since when; see `measure`.
        self.traces = Traces()
        self.fates: dict[str, int] = {}  # Told to reply queues, since the start.
        self.fates_lost = 0  # Their reply queue was gone or full.
        self.removed = False
        self._letters_exist = entry.settings.dead_letters is not None
        self._turn = 0

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
        return next(iter(self.lanes.values()))

    def lane_for(self, priority: int, group: str) -> Partition:
        """The log for a message: by its group where there are several, so that a group stays in order."""
        lanes = list(self.lanes.values())
        if len(lanes) == 1:
            return lanes[0]
        if group:
            return lanes[zlib.crc32(group.encode()) % len(lanes)]
        self._turn += 1
        return lanes[self._turn % len(lanes)]

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
        if header.is_control:
            return
        number = partition.log.partition
        if number in self.hidden:
            for record in read_records(stored, 0):
                self.staging.appended(number, record.offset, due_of(record), now_ms)
        else:
            size = 0
            if self.settings.bytes_max:  # Otherwise nobody asks, and batches stay closed.
                size = sum(body_bytes_of(record) for record in read_records(stored, 0))
            self.queue.apply_sent(header.record_count, size)
        if self.settings.deduplication != "off":
            self._remember(stored, number)

    def on_sent(self, count: int) -> None:
        """A producer of the topic sent so many."""
        self.sends += count

    def _remember(self, stored: bytes, number: int) -> None:
        """What was sent with a deduplication id is known by it for a while. Moves within the queue are not sends."""
        settings = self.settings
        for record in read_records(stored, 0):
            fields = decode_record(record, number)
            if fields.deduplication_id and fields.sent_ms == record.timestamp_ms:
                scope = fields.group if settings.deduplication_scope == "group" else ""
                mark = fingerprint(fields.deduplication_id, scope)
                window_ms = settings.deduplication_window_ms
                self.sent.remember(mark, fields.message_id, record.offset, record.timestamp_ms, window_ms)

    def snapshot(self) -> list[Any]:
        """For `restore`."""
        return [self.queue.snapshot(), self.staging.snapshot(), self.sent.snapshot()]

    def restore(self, state: list[Any]) -> None:
        """Take over what `snapshot` gave."""
        self.queue.restore(state[0])
        self.staging.restore(state[1])
        self.sent.restore(state[2])

"""One queue on this node: its cursor, staging, deduplication window and logs.

State and folds only; the operations are in the packages beside this file. `on_batch` is the fold over the logs: it is
called for every appended batch of any producer, and again in a replay.
"""

from __future__ import annotations

import asyncio
import zlib
from typing import TYPE_CHECKING, Any, Final, final

import msgspec

from longhall.broker.partition import Listener, Partition
from longhall.broker.queue_catalogue import QueueEntry
from longhall.broker.queues.delivery.delivery_cache import DeliveryCache
from longhall.broker.queues.delivery.waiters import Waiters
from longhall.broker.queues.delivery.window import Window
from longhall.queues.deduplication import NO_LANE, DeduplicationWindow, fingerprint
from longhall.queues.envelope import (
    body_bytes_of,
    decode_record,
    due_of,
    group_text,
    priority_of,
    sent_as,
    whole_of,
)
from longhall.queues.events import Arrived, Emptied, LaneOpened, Purged, QueueEvent, Settled, StateCopied
from longhall.queues.messages import QueueView
from longhall.queues.open_sends import OpenSends
from longhall.queues.outcomes import Candidate
from longhall.queues.queue import Queue
from longhall.queues.receipts import Receipts
from longhall.queues.receiver_filter import ReceiverFilter
from longhall.queues.selector import compile_filter
from longhall.queues.settings import QueueSettings
from longhall.queues.staging import Staging
from longhall.queues.stamps import HEAD, is_late
from longhall.queues.state import State
from longhall.records.batch import BatchHeader, read_records
from longhall.records.control import parse_marker
from longhall.records.record import Record
from longhall.shards.shard import Shard
from longhall.topics.partition_moves import MovePhase

if TYPE_CHECKING:
    from longhall.broker.pending import Pending

PRIORITY_BYTES_MAX: Final = 1024 * 1024  # Larger messages are delivered without their priority.

HEAD_LEVEL: Final = 1  # The level of late messages, in a queue with one priority.

NEVER_EXPIRES: Final = 0
MAY_EXPIRE: Final = 1  # Not checked since the start.
EXPIRES: Final = 2

_GIVES: Final = (MovePhase.FENCED, MovePhase.SWITCHED)
_TAKES: Final = (MovePhase.COPYING, MovePhase.FENCED)


SHARE_GROUP: Final = "kafka.share.group"  # In the settings of a cursor of a share group's own: that group.


@final
class RunningQueue(Listener):
    """The state of one queue. `lanes` are delivered; `hidden` logs have delayed messages."""

    def __init__(self, entry: QueueEntry, shard: Shard, secret: bytes) -> None:
        self.entry = entry
        self.shard = shard
        self.number = entry.number
        self.secret = secret
        self.queue = Queue(entry.number, entry.settings)
        self._configured = entry.settings  # Those that were taken last.
        self.staging = Staging(entry.number)
        self.sent = DeduplicationWindow()
        self.open_sends = OpenSends()
        self.arrivals: dict[
            int, tuple[int, int]
        ] = {}  # By group: the last message of its outbox, by stream and offset.
        self.deduplicates = _deduplicates(entry.settings)
        # What receipts are made with: of a queue that moved here, the number and the secret of its first group.
        self.origin: tuple[int, bytes] = (entry.number, secret)
        self.receipts = Receipts(secret, entry.number)
        self.incoming = b""  # The pieces of the state that came from another group so far.
        self.outgoing: tuple[int, bytes] = (0, b"")  # The state for another group, by the step of the move.
        self.is_away = False  # True if another group serves the queue, or none because it moves.
        self.is_leaving = False  # True if it moves away, and nothing of it may change here any more.
        self.is_copy = False  # True if it moves here, and has no state of its own until the copy is complete.
        self.lanes: dict[int, Partition] = {}  # The delivered logs, by partition id.
        self.route: list[Partition] = []  # The lanes that are partitions of the topic.
        self.open_parts = 0  # The number of parts of the route that accept messages; 0: all. From the catalogue.
        self.has_marks = False  # True if FIFO groups can change their log, so that marks may exist.
        self.levels: dict[int, Partition] = {}  # The lanes of priority levels.
        self.hidden: dict[int, Partition] = {}  # The logs of delayed messages.
        self.windows: dict[int, Window] = {}
        self.waiters = Waiters(self.available)
        self.send_turn = asyncio.Lock()  # Of calls whose messages are sent one by one; see `send_one_by_one`.
        self.slow_send: Pending[Any] | None = None  # The last such call of a publisher, until another follows it.
        self.lease_timer: tuple[float, asyncio.Handle] | None = (
            None  # When the timer of the next lease end fires, and its handle.
        )
        self.receiver_filters: dict[str, ReceiverFilter] = {}  # By filter text.
        self.deaths: dict[str, int] = {}  # By reason, since the start, for the metrics.
        self.sends = 0  # Since the start, like `deaths`.
        self.settles = 0  # The same; messages that consumers settled.
        self.oldest: dict[
            int, tuple[int, int]
        ] = {}  # By lane: the oldest waiting message and its time; see `measurement`.
        self.view: QueueView | None = None  # Cached for `Desk`.
        self.delivery_cache = DeliveryCache()
        self.fates: dict[str, int] = {}  # Delivery reports sent since the start.
        self.fates_lost = 0  # Reports whose reply queue was gone or full.
        self.expiry = MAY_EXPIRE  # Whether the queue has messages with a time to live; see `expirer`.
        self.removed = False
        self._reads_uncommitted = False
        self._letters_exist = entry.settings.dead_letters is not None
        self._turn = 0
        self._filter_text = entry.settings.filter
        self.filter = compile_filter(entry.settings.filter) if entry.settings.filter else None

    @property
    def is_closed(self) -> bool:
        """True if nothing may be done with the messages here: the queue was deleted, or another group serves it."""
        return self.removed or self.is_away

    def follow_place(self, wing: int) -> bool:
        """Learn from the topic whether this group, the group `wing`, serves the queue. True if that has changed."""
        was = self.is_away
        move = self.route[0].options.moves.of(self.route[0].number)
        self.is_away = not [partition for partition in self.route if not partition.elsewhere]
        self.is_leaving = self.is_away and move is not None and move.source == wing and move.phase in _GIVES
        self.is_copy = move is not None and move.target == wing and move.phase in _TAKES
        if not self.is_leaving:
            self.outgoing = (0, b"")
        for partition in [*self.levels.values(), *self.hidden.values()]:
            partition.elsewhere = self.is_away
        return was != self.is_away

    def rebind(self, route: list[Partition], others: list[Partition]) -> None:
        """Use other logs: those of the route, and hidden ones."""
        for partition in [*self.lanes.values(), *self.hidden.values()]:
            if self in partition.listeners:
                partition.listeners.remove(self)
        self.lanes, self.route, self.levels, self.hidden, self.windows = {}, [], {}, {}, {}
        for partition in [*route, *[one for one in others if one.number < 0]]:
            self.add_lane(partition)
        for partition in others:
            if partition.number >= 0:
                self.add_hidden(partition)

    @property
    def acknowledgers(self) -> int:
        """The acknowledgement level of sends (see `shards.shard`), which is that of the topic."""
        return self.route[0].options.acknowledge

    @property
    def in_sync_min(self) -> int:
        """The least number of in-sync replicas for sends, which is that of the topic; 0: that of the hall."""
        return self.route[0].options.in_sync_min

    @property
    def gather_ms(self) -> int:
        """How long a receiver that can wait waits for more messages, which is that of the topic."""
        return self.route[0].options.gather_ms

    def kept_from_ms(self, now_ms: int) -> int:
        """Messages from before this time are outdated, which the retention of the topic decides; -1: none are.

        The cursor of a share group reads a topic as other Kafka consumers do: what the log has.
        """
        options = self.route[0].options
        is_kept = not options.deletes or options.retention_ms < 0 or SHARE_GROUP in self.settings.door
        return -1 if is_kept else now_ms - options.retention_ms

    @property
    def is_sealed(self) -> bool:
        """True if the queue takes sealed messages only, which its topic says."""
        return self.route[0].options.is_sealed

    @property
    def counts_bytes(self) -> bool:
        """True if the queue has a bound of bytes."""
        return self.settings.bytes_max > 0

    @property
    def reads_uncommitted(self) -> bool:
        """True if messages of open and aborted transactions are delivered: a share group's cursor may want that."""
        return self._reads_uncommitted

    def read_uncommitted(self, wanted: bool) -> None:
        """Deliver messages of open and aborted transactions too, or not. Not durable."""
        if wanted != self._reads_uncommitted:
            self._reads_uncommitted = wanted
            self.windows = {}

    @property
    def settings(self) -> QueueSettings:
        """The current settings."""
        return self.entry.settings

    def follow_settings(self) -> None:
        """Take the settings of the catalogue if they are other ones."""
        if self._configured is not self.settings:
            self.configured()

    def configured(self) -> None:
        """Take the new settings of the catalogue."""
        self._configured = self.settings
        self._letters_exist = self.settings.dead_letters is not None
        self.deduplicates = _deduplicates(self.settings)
        self.queue.configure(self.settings)
        for partition in self.route:
            partition.parted = partition.parted or self.grows
        if self.settings.filter != self._filter_text:
            self._filter_text = self.settings.filter
            self.filter = compile_filter(self._filter_text) if self._filter_text else None
            self.windows = {}  # Their contents depend on the filter.

    def follow_letters(self, exist: bool) -> None:
        """Follow the existence of the dead-letter queue: without it messages are redelivered, not lost."""
        if exist != self._letters_exist:
            self._letters_exist = exist
            settings = self.settings if exist else msgspec.structs.replace(self.settings, dead_letters=None)
            self.queue.configure(settings)

    def add_lane(self, partition: Partition) -> None:
        """Add a delivered log."""
        self.lanes[partition.lane] = partition
        partition.listeners.append(self)
        if len(self.waiters):
            partition.watchers[self.waiters] = None  # Waiting receivers wait for this log too.
        if partition.number < 0:
            self.levels[-partition.number] = partition
        else:
            self.route.append(partition)
            self.has_marks = self.settings.fifo and len(self.route) > 1
            partition.has_priority_lanes = partition.has_priority_lanes or self.has_priority_lanes
            partition.parted = partition.parted or self.grows
            partition.has_rules = partition.has_rules or self.entry.owns_topic

    def add_hidden(self, partition: Partition) -> None:
        """Add a log of delayed messages."""
        self.hidden[partition.lane] = partition
        partition.listeners.append(self)

    def drop_hidden(self, number: int) -> None:
        """Remove an empty log of delayed messages."""
        self.hidden.pop(number, None)
        self.windows.pop(number, None)

    def main_lane(self) -> Partition:
        """The first partition."""
        return self.route[0]

    def lane_for(self, priority: int, group: str) -> Partition:
        """The log for a message: by the hash of its group if there are several, so that a group stays in order.

        Messages with a priority go there too, and a copy goes to the lane of the level: see `priority_copy`.
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
        if lane.elsewhere:  # A wing stores only some of the partitions.
            own = [one for one in lanes[:parts] if not one.elsewhere]
            lane = own[turn % len(own)]
        return lane

    def sequence_of(self, lane: int, offset: int) -> int:
        """The sequence number of a message."""
        return self.queue.state.marks.sequence(lane, offset) if self.has_marks and lane != NO_LANE else offset

    def available(self) -> int:
        """The number of deliverable messages; expired leases count after the next tick."""
        return self.queue.waiting([(lane, partition.high_watermark) for lane, partition in self.lanes.items()])

    def window(self, number: int) -> Window:
        """The read cache of a log."""
        window = self.windows.get(number)
        if window is None:
            partition = self.lanes.get(number) or self.hidden[number]
            window = self.windows[number] = Window(partition, self)
        return window

    def peek(self, number: int, offset: int, count_max: int) -> list[Candidate] | None:
        """Messages of a lane for the delivery selection; None if they are not in memory."""
        return self.window(number).look(offset, count_max)

    @property
    def wants_bodies(self) -> bool:
        """True: the fold reads every message, so batches must be complete in the write-ahead log.

        This covers the hidden logs too.
        """
        return True

    def on_batch(self, partition: Partition, header: BatchHeader, stored: bytes, now_ms: int) -> None:
        """Apply an appended batch of one of the logs. A copy takes its state from the source when it is complete."""
        if self.is_copy:
            return
        number = partition.lane
        if header.is_control:
            self._end(number, header, stored)
            return
        if number in self.hidden:
            self.shard.opened += header.record_count
            for record in read_records(stored, 0):
                self.staging.appended(number, record.offset, due_of(record), now_ms)
        else:
            self._count(partition, header, stored)
        if self.deduplicates and partition.number >= 0:
            self.shard.opened += header.record_count
            self._remember(stored, number, header)

    def _count(self, partition: Partition, header: BatchHeader, stored: bytes) -> None:
        judged = self.judges(partition)
        if not judged and not self.settings.bytes_max:  # Counting needs only the header.
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
            self.queue.state.uncommitted.sent(partition.lane, header.producer_id, count, size)

    def _end(self, number: int, header: BatchHeader, stored: bytes) -> None:
        state = self.queue.state
        if len(state.uncommitted) or len(self.open_sends):
            marker = parse_marker(stored, 0, header)
            if marker is not None:
                state.apply_ended(number, header.producer_id, marker.commit)
                for mark in self.open_sends.ended(number, header.producer_id):
                    if not marker.commit:
                        self.sent.forget(mark)

    @property
    def grows(self) -> bool:
        """True if the queue changes the number of its parts."""
        return self.settings.parts_max > 1 and self.entry.owns_topic

    # Membership of messages

    @property
    def has_priority_lanes(self) -> bool:
        """True if messages with a priority, or late ones, are delivered from lanes of their own."""
        return (self.settings.priorities > 1 or self.settings.late_stamped == HEAD) and self.entry.owns_topic

    def judges(self, partition: Partition) -> bool:
        """True if some messages of this log are not delivered from it: filtered, or copied to a priority lane."""
        if partition.number < 0 or partition.lane not in self.lanes:
            return False
        return self.has_priority_lanes or self.filter is not None

    def takes(self, partition: Partition, header: BatchHeader, record: Record) -> bool:
        """True if this message is delivered from this log."""
        if self.has_priority_lanes and self.level_of(header, record):
            return False
        return self.filter is None or self.filter.matches(decode_record(record, partition.lane))

    def level_of(self, header: BatchHeader, record: Record) -> int:
        """The priority level to whose lane a message is copied; 0: none.

        The level follows from the record and never changes, because the scan of the ordinary lane depends on it.
        Transactional messages are not copied, because they may be aborted; large ones are not copied either.
        """
        if header.is_transactional or not record.headers:
            return 0
        if self.settings.late_stamped == HEAD:
            priority = HEAD_LEVEL if is_late(record) else 0
        else:
            priority = min(priority_of(record), self.settings.priorities - 1)
        if not priority or len(record.value or b"") > PRIORITY_BYTES_MAX or whole_of(record)[0]:
            return 0
        return priority

    def on_sent(self, count: int) -> None:
        """Count sent messages."""
        self.sends += count

    def on_settled(self, events: list[Settled]) -> None:
        """Count messages that consumers settled."""
        for event in events:
            self.settles += len(event.offsets)

    def _remember(self, stored: bytes, number: int, header: BatchHeader) -> None:
        """Add sends with a deduplication id to the window. Moves within the queue are not sends."""
        settings = self.settings
        by_group = settings.deduplication_scope == "group"
        window_ms = settings.deduplication_window_ms
        for record in read_records(stored, 0):
            identity, group, message_id, received_ms = sent_as(record)
            if identity:
                key = record.key
                scope = (group or (group_text(key) if key else "")) if by_group else ""
                mark = fingerprint(identity, scope)
                self.sent.remember(mark, message_id, record.offset, received_ms, window_ms, number)
                if header.is_transactional:
                    self.open_sends.sent(number, header.producer_id, mark)

    def apply(self, event: QueueEvent) -> None:
        """Apply an event of the queue, as it happens or in a replay."""
        if type(event) is Arrived:
            self.arrivals[event.source] = (event.stream, event.offset)
            return
        if type(event) is StateCopied:
            self._take_copied(event)
            return
        if type(event) is Emptied:
            self._empty(event.lanes)
            return
        self.queue.apply(event)
        if type(event) is Purged and event.forgets:  # Cheaper than `isinstance` for structures, and for every event.
            self.sent.clear()

    def snapshot(self) -> list[Any]:
        """For `restore`."""
        state = [self.queue.snapshot(), self.staging.snapshot(), self.sent.snapshot(), self.open_sends.snapshot()]
        has_moved = bool(self.incoming) or self.origin[0] != self.number
        if self.arrivals or has_moved:
            state.append([[source, *last] for source, last in sorted(self.arrivals.items())])
        if has_moved:
            state.append([list(self.origin), self.incoming])
        return state

    def state_for_copy(self) -> bytes:
        """Everything but the messages, for the group to which the queue moves."""
        arrivals = [[source, *last] for source, last in sorted(self.arrivals.items())]
        state = [self.queue.snapshot(), self.staging.snapshot(), self.sent.snapshot(), self.open_sends.snapshot()]
        return msgspec.msgpack.encode([*state, arrivals, [list(self.origin), b""]])

    def _take_copied(self, event: StateCopied) -> None:
        if event.at == 0:
            self.incoming = b""
        if event.at != len(self.incoming):
            return  # A piece of another attempt.
        self.incoming += event.piece
        if len(self.incoming) == event.total:
            state: list[Any] = msgspec.msgpack.decode(self.incoming)
            self.incoming = b""
            self._forget()
            self.restore(state)

    def _empty(self, lanes: list[int]) -> None:
        paused, purged_ms = self.queue.state.paused, self.queue.state.purged_ms
        self._forget()
        state = self.queue.state
        state.paused, state.purged_ms = paused, purged_ms
        for lane in lanes:
            state.apply(LaneOpened(queue=self.number, lane=lane))

    def _forget(self) -> None:
        """Begin with an empty state."""
        self.queue.state = State(self.settings.fifo)
        self.staging = Staging(self.number)
        self.sent.clear()
        self.open_sends = OpenSends()
        self.arrivals = {}
        self.incoming = b""
        self.outgoing = (0, b"")
        self.windows = {}
        self.oldest = {}
        self.delivery_cache = DeliveryCache()
        self.expiry = MAY_EXPIRE
        self._take_origin(self.number, self.secret)

    def _take_origin(self, number: int, secret: bytes) -> None:
        self.origin = (number, secret)
        self.receipts = Receipts(secret, number)

    def restore(self, state: list[Any]) -> None:
        """Take the state of a `snapshot`."""
        self.queue.restore(state[0])
        self.staging.restore(state[1])
        self.sent.restore(state[2])
        if len(state) > 3:  # Older snapshots have no ids of open transactions.
            self.open_sends.restore(state[3])
        if len(state) > 4:
            self.arrivals = {source: (stream, offset) for source, stream, offset in state[4]}
        if len(state) > 5:
            (number, secret), self.incoming = state[5]
            self._take_origin(int(number), bytes(secret))


def priority_queue_on(partition: Partition) -> RunningQueue | None:
    """The queue with priority lanes on this partition; None if there is none."""
    for listener in partition.listeners:
        if isinstance(listener, RunningQueue) and listener.has_priority_lanes:
            return listener
    return None


def owner_of(partition: Partition) -> RunningQueue | None:
    """The queue whose own topic this partition is part of: its rules hold for every producer. None for other topics."""
    for listener in partition.listeners:
        if isinstance(listener, RunningQueue) and listener.entry.owns_topic:
            return listener
    return None


def _deduplicates(settings: QueueSettings) -> bool:
    """True if repeats are dropped. An exactly-once queue does it by id, whatever else its settings say."""
    return settings.deduplication != "off" or settings.delivery == "exactly-once"

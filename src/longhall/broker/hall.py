"""The hall on one node: its shards, topics, queues and partitions, with look-ups.

The operations are in the modules beside this one. Only the event loop of the owning process uses a hall, so there are
no locks. Collaborators that react to changes implement `HallObserver`; the queue service is attached as
`QueueAppender`.
"""

from __future__ import annotations

import asyncio
import errno
import logging
import zlib
from collections.abc import Callable
from functools import partial
from typing import Any, Final, final

from mypy_extensions import mypyc_attr

from longhall.broker import queue_logs
from longhall.broker.background import BackgroundTasks
from longhall.broker.catalogue import Catalogue, Topic
from longhall.broker.commits import Commits
from longhall.broker.configuration import hidden_options
from longhall.broker.events import (
    BrokersConfigured,
    CatalogueEvent,
    CopyCompleted,
    PartitionRenewed,
    PartitionsAdded,
    PartitionsMapped,
    QueueConfigured,
    QueueDeclared,
    QueueRemoved,
    QueueRenewed,
    TopicConfigured,
    TopicCreated,
    TopicDeleted,
    encoder,
)
from longhall.broker.hall_time import HallTime
from longhall.broker.leadership import Leadership
from longhall.broker.options import HallOptions
from longhall.broker.partition import Partition
from longhall.broker.placement import GroupPlacement
from longhall.broker.produced import ProducedBatch, Sent, TransactionVerifier
from longhall.broker.queue_catalogue import QueueEntry
from longhall.broker.queue_logs import HIDDEN_TOPIC
from longhall.broker.queues.running_queue import RunningQueue
from longhall.broker.refused_producers import RefusedProducers
from longhall.broker.traffic import Traffic
from longhall.broker.usage.usage_meter import Usage
from longhall.errors import Code, LonghallError
from longhall.exchanges.events import PolicyRemoved, PolicySet
from longhall.log.files import OpenFiles
from longhall.log.partition import PartitionLog
from longhall.log.positions import Positions
from longhall.log.wal import Wal
from longhall.names import CATALOGUE_SHARD
from longhall.queues.chunked_messages import ChunkedMessages
from longhall.queues.chunks import Uploads
from longhall.queues.outbox import Outboxes, OutboxListener
from longhall.queues.redrive import Redrives
from longhall.records.batch import BatchHeader
from longhall.shards.backlog import Backlog
from longhall.shards.journal import Journal
from longhall.shards.replica import Replica
from longhall.shards.shard import CATALOGUE, Committable, Shard
from longhall.topics.groups import Groups
from longhall.topics.transactions import Transactions
from longhall.world.ports import World

NODE_ID: Final = 1
TAIL_PARTITION_BYTES_MAX: Final = 256 * 1024  # A larger tail is written to its segment.
WAL_KEPT_CHECKPOINTS: Final = 3  # The ring of the log has room for entries during a checkpoint.
EVENT_ROOM_BYTES: Final = 4 * 1024 * 1024  # Of the write-ahead log, reserved for events.
JOINS_MAX: Final = 4  # Concurrent reassemblies of large messages.

_log = logging.getLogger("longhall.hall")


@mypyc_attr(allow_interpreted_subclasses=True)
class HallObserver:
    """A collaborator that reacts to changes of a hall; `Hall.observers` calls each method in the order of addition."""

    def topic_deleted(self, topic: str) -> None:
        """A topic was deleted, now and not in a replay."""

    def transaction_changed(self) -> None:
        """A send has changed the state of a transaction."""

    def queue_placed(self, queue: RunningQueue) -> None:
        """This group serves a queue from now on, or does not any more; not called in a replay."""

    def brokers_configured(self) -> None:
        """The configuration of this broker may have changed."""

    def names_unsynced(self) -> None:
        """A large batch could be written to its segment directly if the segment's name were synced."""


@mypyc_attr(allow_interpreted_subclasses=True)
class QueueAppender:
    """The queue service as sends see it. A hall without queues refuses sends to queues with priorities."""

    def append_with_copies(
        self, partition: Partition, header: BatchHeader, frame: bytes, at: int, now_ms: int, message: bool
    ) -> Code | None:
        """Append the batch at `frame[at:]`, and copies of its messages with a priority to the lanes of their levels."""
        return Code.NOT_READY

    def partition_chosen(self, partition: Partition, sender: int) -> None:
        """A Kafka producer sends to a part of its own choice."""

    def send_by_rules(self, batch: ProducedBatch) -> Sent:
        """Append a batch of a Kafka producer to the partition of a queue, if the rules of the queue allow it."""
        return Sent(Code.NOT_READY)


@final
class Hall:
    """The state of one hall. It is created empty; recovery fills it before the first request."""

    def __init__(self, world: World, options: HallOptions) -> None:
        self.world = world
        self.options = options
        self.hall_id = ""
        self.time = HallTime(world.clock)
        self.files = OpenFiles(world.disk, options.open_files_max, options.recent_bytes)
        self.wal = Wal(world.disk, options.wal_file_bytes, WAL_KEPT_CHECKPOINTS * options.checkpoint_bytes)
        self.shards = [Shard(number, self.wal) for number in range(options.shards + 1)]
        self.journal = Journal(self.wal, self.shards, self.files)
        self.commits = Commits(self.journal, world.disk, world.clock, self.time, options.lone_sync_us_max)
        self.backlog = Backlog(options.backlog_bytes_max)  # Of a leader: uncommitted bytes.
        self.refused = RefusedProducers()
        self.catalogue = Catalogue(options)
        self.partitions: dict[int, Partition] = {}
        self.routes: dict[str, list[Partition]] = {}
        self.queues: dict[int, RunningQueue] = {}
        self.queue_secret = b""  # The key of receipts, stored with the directory's identity.
        self._undeclared_queues: dict[int, list[Any]] = {}
        self.redrives: list[Redrives] = []
        self.uploads: list[Uploads] = []
        self.chunked_messages: list[ChunkedMessages] = []
        self.outboxes = Outboxes()  # Messages for queues of other groups.
        self.usage = Usage()
        self.joins = asyncio.Semaphore(JOINS_MAX)
        self.groups: list[Groups] = []
        self.transactions: list[Transactions] = []
        self.traffic = Traffic()
        self.topic_traffic: dict[str, Traffic] = {}
        self.background = BackgroundTasks(self.halt)
        self.storage_full = False
        self.write_failed = False  # A write has failed since the last successful probe of the disk.
        self.space_bytes = 1 << 62  # Free bytes before the reserve, as of the last check, minus messages since.
        self.leadership: Leadership | None = None  # None: a standalone node, which leads everything.
        self.wings: GroupPlacement | None = None  # In a cluster: the placement of topics in wings.
        self.replica: Replica | None = None  # In a cluster: this node's replica of the log.
        self.topics_version = 0  # The number of changes of topics and their partitions that this process has seen.
        self.feature_level = 1  # The formats that may be written: every node of the cluster can read them.
        self.positions = Positions()  # In a cluster: positions of entries in the local log.
        self.on_release: Callable[[int], int] = _all_of_it  # In a cluster: followers need the log from there on.
        self.failed = ""  # In a cluster: why the state is invalid; it is never checkpointed then.
        self.pinned = False  # A full sync reads the files of the last checkpoint: no other is taken.
        self.cleaning = False  # The cleaner may replace files now.
        self.refusal: Code | None = None  # In a cluster: the error for all messages now; None if they are accepted.
        self.is_short = False  # In a cluster: fewer replicas are in sync than `in_sync_min`.
        self.in_sync_count = 1  # Replicas in sync, with this one.
        self.tails: dict[int, Partition] = {}  # Partitions with unflushed records.
        self.tail_bytes = 0
        self.dropped: list[Partition] = []  # Deleted partitions; the next checkpoint removes their files.
        self.dead_segments: list[tuple[int, int]] = []  # Partition, base offset of dropped segments; removed likewise.
        self.removals: list[str] = []  # Unreferenced files that the housekeeper removes.
        self.removal_wanted: asyncio.Event | None = None  # Set when `removals` has files; None without a housekeeper.
        self.referenced_bytes = 0  # Written to segments directly since the last checkpoint.
        self.checkpoint_at = 0  # The end of the write-ahead log at the last checkpoint.
        self.checkpoint_steps = 0  # `steps()` at the last checkpoint.
        self.checkpoint_wanted = False  # A caller needs a checkpoint that begins from now on.
        self.checkpoints = 0
        self.checkpoints_begun = 0  # With those that failed;
        self.checkpoint_number = 0  # the number, among these, of the last one that was published.
        self.messages_cut = 0  # Messages of entries that a new leader truncated.
        self.checkpointed_ms = 0  # Hall time of the last checkpoint, 0 before the first,
        self.recovered_ms = 0  # and of the end of recovery.
        self.mended = 0  # Damaged ranges of segments that were repaired from another replica.
        self.recovery_seconds = 0.0
        self.log_cut_bytes = 0  # Truncated bytes of the write-ahead log at recovery, and corrected bits.
        self.log_corrections = 0
        self.observers: list[HallObserver] = []
        self.queue_appender = QueueAppender()
        self.transaction_verifier = TransactionVerifier()  # In a wing: the way to the coordinator of transactions.
        self.outbox_listener = OutboxListener()

    # Looking up

    def topic(self, name: str) -> Topic | None:
        """The topic of this name."""
        return self.catalogue.topics.get(name)

    def is_short_of(self, in_sync_min: int) -> bool:
        """True if fewer replicas are in sync than a topic asks for; 0 asks for as many as the hall does."""
        return self.is_short if in_sync_min == 0 else self.in_sync_count < in_sync_min

    def refusal_for(self, in_sync_min: int, leader_only: bool) -> Code | None:
        """The error for messages of a topic with this minimum; None if they are accepted. Messages that the leader's
        copy suffices for (`leader_only`) do not need other replicas.
        """
        refusal = self.refusal
        if refusal is not None and refusal is not Code.NOT_ENOUGH_REPLICAS:
            return refusal
        if leader_only:
            return None
        if in_sync_min == 0:
            return refusal
        return Code.NOT_ENOUGH_REPLICAS if self.in_sync_count < in_sync_min else None

    def partition(self, topic: str, number: int) -> Partition | None:
        """A partition by topic and number."""
        route = self.routes.get(topic)
        if route is None or not 0 <= number < len(route):
            return None
        return route[number]

    def shown(self, topic: str) -> list[Partition] | None:
        """The partitions of a topic that clients see; None if there is no such topic."""
        route = self.routes.get(topic)
        return None if route is None else route[: self.catalogue.topics[topic].shown_count]

    def topic_name(self, topic_id: bytes) -> str:
        """The name of the topic with this id; empty if there is none."""
        topic = self.catalogue.by_id.get(topic_id)
        return topic.name if topic is not None else ""

    def running_queue(self, name: str) -> RunningQueue | None:
        """The queue of this name."""
        entry = self.catalogue.queues.by_name.get(name)
        return self.queues[entry.number] if entry is not None else None

    def known_queue(self, name: str) -> RunningQueue:
        """The queue of this name. UNKNOWN_QUEUE if there is none."""
        queue = self.running_queue(name)
        if queue is None:
            raise LonghallError(Code.UNKNOWN_QUEUE, f"There is no queue '{name}'.")
        return queue

    def queues_on(self, topic_id: bytes) -> list[RunningQueue]:
        """All queues on this topic."""
        return [queue for queue in self.queues.values() if queue.entry.topic_id == topic_id]

    def shard_of(self, name: str) -> Shard:
        """The shard that coordinates a group or a transactional id."""
        return self.shards[1 + zlib.crc32(name.encode()) % (len(self.shards) - 1)]

    def groups_of(self, group_id: str) -> Groups:
        """The groups of the shard of this group."""
        return self.groups[self.shard_of(group_id).number - 1]

    def transactions_of(self, transactional_id: str) -> Transactions:
        """The transactions of the shard of this transactional id."""
        return self.transactions[self.shard_of(transactional_id).number - 1]

    # Appending events

    @property
    def is_backed_up(self) -> bool:
        """True under back-pressure: too much is uncommitted, or too much of the log waits for a checkpoint."""
        if self.backlog.is_full:
            return True
        # The first test suffices mostly; after a start `checkpoint_at` is unknown.
        bytes_max = self.options.wal_bytes_max
        return self.wal.end - self.checkpoint_at >= bytes_max and self.log_behind_bytes >= bytes_max

    @property
    def log_behind_bytes(self) -> int:
        """The size of the write-ahead log after the last checkpoint."""
        return self.wal.end - max(self.checkpoint_at, self.wal.start)

    def has_room(self, size_bytes: int) -> bool:
        """True if the log has room for events of this size: see `Backlog` and `log_has_room`."""
        return not self.backlog.is_exhausted and self.log_has_room(size_bytes)

    def log_has_room(self, size_bytes: int) -> bool:
        """True if the write-ahead log has this much room; allocates another file if needed."""
        if self.wal.room_bytes() >= size_bytes:
            return True
        try:
            self.wal.prepare_room(size_bytes)
        except OSError as error:
            self.refuse_storage(error)
        return self.wal.room_bytes() >= size_bytes

    def refuse_storage(self, error: OSError) -> Code:
        """Handle a failed write that changed nothing: messages are refused until a probe of the disk succeeds. Returns
        the error code.
        """
        if not self.storage_full:
            _log.warning("the disk refuses writes; messages are refused", extra={"reason": str(error)})
        self.storage_full = True
        self.write_failed = True
        return Code.STORAGE_FULL

    def halt(self, error: Exception) -> None:
        """Stop the node after an unexpected error: an appended entry was not applied, so state and log may differ.
        Nothing more is written or acknowledged; recovery rebuilds the state from the log.
        """
        if self.commits.failure is None:
            _log.critical("an internal error stops the node", exc_info=error)
        failure = OSError(errno.ENOTRECOVERABLE, f"internal error: {error!r}")
        failure.__cause__ = error
        self.commits.fail(failure)

    def append_event(self, shard: Shard, room: int, event: object) -> None:
        """Append an event; the caller applies it and waits on the shard."""
        shard.append_event(room, encoder.encode(event))
        self.journal.touch(shard, True)
        self.commits.kick()

    def write_event(self, shard: Shard, room: int, event: object, apply: Callable[[Any], object]) -> None:
        """Append and apply an event; the caller waits on the shard."""
        self.append_event(shard, room, event)
        try:
            apply(event)
        except Exception as error:
            self.halt(error)
            raise

    def append_catalogue(self, event: CatalogueEvent, target: Committable) -> None:
        """Append and apply a change of the catalogue; `target` is called on its commit."""
        shard = self.shards[CATALOGUE_SHARD]
        self.write_event(shard, CATALOGUE, event, self.apply_catalogue)
        shard.wait(target, 0)

    def apply_catalogue(self, event: CatalogueEvent, replayed: bool = False) -> None:
        """Apply a change to the catalogue, partitions and queues."""
        if isinstance(event, TopicDeleted):
            self._drop_topic(event.topic_id, replayed)
        elif isinstance(event, QueueRemoved):
            self._drop_queue(event.queue_id)
        elif isinstance(event, CopyCompleted | QueueRenewed):
            queue_logs.drop_unused(self, event)
        self.catalogue.apply(event, replayed)
        if isinstance(event, (TopicCreated, TopicDeleted, PartitionsAdded, PartitionsMapped)):
            self.topics_version += 1
        match event:
            case TopicCreated():
                self.routes[event.name] = []
                self.topic_traffic[event.name] = Traffic()
                self._add_partitions(event.topic_id, event.partitions, [])
            case PartitionsAdded():
                self._add_partitions(event.topic_id, event.partitions, self.queues_on(event.topic_id))
            case PartitionRenewed():
                self._renew_partition(event)
            case PartitionsMapped():
                self._follow_map(event.topic_id)
            case TopicConfigured():
                topic = self.catalogue.by_id[event.topic_id]
                levels = [lane for queue in self.queues_on(event.topic_id) for lane in queue.levels.values()]
                for partition in [*self.routes[topic.name], *levels]:
                    partition.configure(topic.options)
                for partition in self.routes[topic.name]:
                    partition.place(topic.options, self.options.wing)
                self._place_queue(topic, replayed)
            case BrokersConfigured():
                self._use_configuration()
            case QueueDeclared():
                self._add_queue(self.catalogue.queues.by_id[event.queue_id])
            case QueueConfigured():
                entry = self.catalogue.queues.by_id[event.queue_id]
                self.queues[entry.number].configured()
            case PolicySet() | PolicyRemoved():
                for queue in self.queues.values():
                    queue.follow_settings()
            case _:
                queue_logs.follow(self, event)

    def restore_catalogue(self, state: dict[str, Any]) -> None:
        """Take the catalogue of a snapshot, and create its partitions."""
        self.catalogue.restore(state)
        self._use_configuration()
        self.topics_version += 1
        for topic in self.catalogue.topics.values():
            self.routes[topic.name] = []
            self.topic_traffic[topic.name] = Traffic()
            self._add_partitions(topic.topic_id, topic.partitions, [])
        for entry in self.catalogue.queues.by_name.values():
            self._add_queue(entry)
            for number, key in entry.lanes.items():
                queue_logs.add_log(self, entry, number, key)
            for lane, number in entry.copies.items():
                queue_logs.add_copy(self, entry, number, lane)
        for number, shard in self.catalogue.parts.items():
            queue_logs.add_parts(self, number, shard)

    def name_broker(self, number: int) -> None:
        """Set the number of this broker, before recovery: its own configurations hold here."""
        self.catalogue.broker = number

    def _use_configuration(self) -> None:
        """Take the options that follow from the configurations of this broker, and pass them to all partitions."""
        self.options = self.catalogue.options
        for topic in self.catalogue.topics.values():
            for partition in self.routes.get(topic.name, ()):
                partition.configure(topic.options)
        hidden = hidden_options(self.options)
        for partition in self.partitions.values():
            if partition.topic_id == HIDDEN_TOPIC:
                partition.configure(hidden)
        for queue in self.queues.values():
            topic = self.catalogue.by_id[queue.entry.topic_id]
            for level in queue.levels.values():
                level.configure(topic.options)
        for observer in self.observers:
            observer.brokers_configured()

    def trim(self, partition: Partition, start_offset: int) -> None:
        """Move the start of a log; the next checkpoint removes the files."""
        tail_before = partition.log.tail_bytes
        for segment in partition.log.advance_start(start_offset):
            self.dead_segments.append((partition.log.partition, segment.base_offset))
        self.tail_bytes -= tail_before - partition.log.tail_bytes
        if partition.producers is not None:
            partition.producers.truncate_to(start_offset)

    def drop_segments(self, partition: Partition, base_offsets: list[int]) -> None:
        """Drop closed segments from the middle of a log; the next checkpoint removes the files."""
        for segment in partition.log.drop_segments(base_offsets):
            self.dead_segments.append((partition.log.partition, segment.base_offset))

    def _add_partitions(self, topic_id: bytes, numbers: list[int], queues: list[RunningQueue]) -> None:
        """Create partitions of a topic, and lanes of the queues on it."""
        topic = self.catalogue.by_id[topic_id]
        route = self.routes[topic.name]
        for number in numbers:
            partition = self.new_partition(topic, len(route), number)
            route.append(partition)
            for queue in queues:
                queue.add_lane(partition)
        for partition in route:
            partition.place(topic.options, self.options.wing)
        self._place_queue(topic, True)

    def _place_queue(self, topic: Topic, replayed: bool) -> None:
        """Tell the queue that owns a topic where it is served now."""
        entry = self.catalogue.queues.by_name.get(topic.name)
        queue = self.queues.get(entry.number) if entry is not None and entry.topic_id == topic.topic_id else None
        if queue is not None and queue.entry.owns_topic and queue.follow_place(self.options.wing) and not replayed:
            for observer in self.observers:
                observer.queue_placed(queue)

    def new_partition(self, topic: Topic, number: int, partition_id: int) -> Partition:
        shard = self.shards[topic.shard or 1 + partition_id % (len(self.shards) - 1)]
        options = topic.options
        log = PartitionLog(self.files, partition_id, options.segment_bytes, options.segment_ms_of(partition_id))
        partition = self.partitions[partition_id] = Partition(topic.name, topic.topic_id, number, shard, log, options)
        partition.traffic = self.topic_traffic[topic.name]
        return partition

    def _renew_partition(self, event: PartitionRenewed) -> None:
        topic = self.catalogue.by_id[event.topic_id]
        self.drop_partition(self.routes[topic.name][event.number])
        new = self.routes[topic.name][event.number] = self.new_partition(topic, event.number, event.partition)
        new.place(topic.options, self.options.wing)

    def _follow_map(self, topic_id: bytes) -> None:
        topic = self.catalogue.by_id[topic_id]
        for queue in self.queues_on(topic_id):
            queue.open_parts = topic.open
        for partition in self.routes[topic.name]:
            partition.parted = True

    def _add_queue(self, entry: QueueEntry) -> None:
        topic = self.catalogue.by_id[entry.topic_id]
        route = self.routes[topic.name]
        queue = RunningQueue(entry, route[0].shard, self.queue_secret)
        for partition in route:
            partition.lane = entry.numbers.get(partition.log.partition, partition.lane)
            queue.add_lane(partition)
        self.queues[entry.number] = queue
        if entry.owns_topic:
            queue.follow_place(self.options.wing)
        if topic.open:
            self._follow_map(topic.topic_id)
        state = self._undeclared_queues.pop(entry.number, None)
        if state is not None:
            queue.restore(state)

    def restore_queues(self, states: dict[int, list[Any]]) -> None:
        """Restore queues from a snapshot; states of queues that are not declared yet wait for it."""
        for number, state in states.items():
            queue = self.queues.get(number)
            if queue is not None:
                queue.restore(state)
            else:
                self._undeclared_queues[number] = state

    def _drop_queue(self, queue_id: bytes) -> None:
        entry = self.catalogue.queues.by_id[queue_id]
        queue = self.queues.pop(entry.number)
        queue.removed = True
        for partition in queue.lanes.values():
            partition.listeners.remove(queue)
        for partition in [*queue.hidden.values(), *queue.levels.values()]:
            self.drop_partition(partition)
        queue.waiters.wake(len(queue.waiters))

    def drop_partition(self, partition: Partition) -> None:
        """Remove a partition; the next checkpoint removes its files."""
        partition.deleted = True
        del self.partitions[partition.log.partition]
        self.tail_bytes -= partition.log.tail_bytes
        self.tails.pop(partition.log.partition, None)
        self.dropped.append(partition)
        partition.wake()

    def _drop_topic(self, topic_id: bytes, replayed: bool) -> None:
        topic = self.catalogue.by_id[topic_id]
        for partition in self.routes.pop(topic.name):
            self.drop_partition(partition)
        self.topic_traffic.pop(topic.name, None)
        if not replayed:  # The events that observers wrote are replayed from the log.
            for observer in self.observers:
                observer.topic_deleted(topic.name)

    def abandon(self) -> None:
        """Release the data directory, so that another hall can open it. This hall is unusable afterwards."""
        self.commits.abandon()
        self.world.disk.finish_writes()  # No write may be pending when another hall opens.
        self.files.close()
        self.wal.close()

    def steps(self) -> int:
        """The cost of a replay from the beginning: entries, and messages in batches that it opens."""
        return sum([shard.sequence + shard.opened for shard in self.shards])

    # Memory

    def note_tail(self, partition: Partition, size_bytes: int) -> None:
        """Count a batch in the tail of this partition; flush it beyond the bounds."""
        self.tails[partition.log.partition] = partition
        self.tail_bytes += size_bytes
        if partition.log.tail_bytes >= TAIL_PARTITION_BYTES_MAX or self.tail_bytes >= self.options.tail_bytes_max:
            if partition.log.is_behind and self.tail_bytes >= 2 * self.options.tail_bytes_max:
                self.flush_tail(partition)
            else:
                self.settle_tail(partition)

    def settle_tail(self, partition: Partition) -> bool:
        """Write a tail to its segment: in the background while many partitions are active, else now. False if the disk
        refuses it.
        """
        log = partition.log
        if len(self.tails) > self.options.behind_tails_min and log.tail_bytes >= self.options.behind_bytes_min:
            try:
                if log.flush_behind(partial(self._left_tail, partition)):
                    return True
            except OSError as error:
                self.refuse_storage(error)
                return False
        return self.flush_tail(partition)

    def _left_tail(self, partition: Partition, size_bytes: int) -> None:
        if not partition.deleted:  # The tail of a deleted partition is subtracted already.
            self.tail_bytes -= size_bytes
            if not partition.log.tail_bytes:
                self.tails.pop(partition.log.partition, None)

    def flush_tail(self, partition: Partition) -> bool:
        """Write a tail to its segment now; False if the disk refuses it."""
        if partition.deleted:
            return True
        before = partition.log.tail_bytes
        try:
            partition.log.flush()
        except OSError as error:
            self.refuse_storage(error)
        self.tail_bytes -= before - partition.log.tail_bytes
        if partition.log.tail_bytes:
            return False
        self.tails.pop(partition.log.partition, None)
        return True


def _all_of_it(position: int) -> int:
    """A standalone node needs no log before the last checkpoint."""
    return position

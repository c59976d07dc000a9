"""The targets of moved messages, and their bounds: dead letters, redriven and delayed messages, delivery reports.

A target is a queue of this group, or the outbox for a queue of another group.

    the queue                                       target
    is in the catalogue here, with a lane here      the queue itself
    is in the catalogue here, all lanes elsewhere   the outbox, also while it moves
    is not in the catalogue of a wing               the outbox: only the hall knows all queues
    is not in the catalogue of the hall             none

A FIFO queue in several groups gets messages of other queues through the outbox only: the group of a message decides its
lane. A queue that the hall does not know is no target while that is so.

A moved message is acknowledged, so it is not refused: it stays where it is until its target has room.

    when_full of the target    without room
    refuse, wait               the move is tried again later
    drop-oldest                the oldest messages of the target are dropped first
    dead-letter                they move on to its own dead-letter queue, if that has room; else as with refuse

Nothing here awaits, and nothing is called inside an atomic write, because making room is a write of its own.
"""

from __future__ import annotations

from typing import Final, final

from longhall.broker.feature_gates import may_use_outbox
from longhall.broker.hall import Hall
from longhall.broker.queues.outbox.outbox_log import MESSAGE_BYTES_MAX, has_room, put
from longhall.broker.queues.running_queue import RunningQueue
from longhall.broker.queues.write import together, write_queue, write_records
from longhall.names import CATALOGUE_SHARD
from longhall.queues.envelope import body_bytes_of, dead_letter_record, decode_record, whole_of
from longhall.queues.events import Died
from longhall.queues.outbox_events import OutboxEntry
from longhall.queues.outcomes import LENGTH, Death, Overflow
from longhall.records.record import Record
from longhall.shards.shard import ALL, Shard

RETRY_MS: Final = 5_000  # When the move of a message is tried again whose target has no room.
STEPS_MAX: Final = 16  # Attempts to make room for one move; each drops up to 128 messages.


@final
class MoveTarget:
    """Where messages are moved to; `queue` is None if another group has it."""

    def __init__(self, name: str, queue: RunningQueue | None) -> None:
        self.name = name
        self.queue = queue

    def takes(self, hall: Hall, records: list[Record]) -> bool:
        """True if there is room for these messages. Not inside an atomic write, because room may be made."""
        size_bytes = sum(body_bytes_of(record) for record in records)
        return self.makes_room(hall, len(records), size_bytes) and (
            self.queue is not None or all(can_leave(record) for record in records)
        )

    def makes_room(self, hall: Hall, count: int, size_bytes: int) -> bool:
        """The same for so many messages and bytes."""
        if self.queue is not None:
            return takes(hall, self.queue, count, size_bytes)
        return has_room(hall, self.name, count)

    def has_room(self, hall: Hall, count: int, size_bytes: int) -> bool:
        """True if there is room now, without messages that are dropped for it."""
        queue = self.queue
        if queue is None:
            return has_room(hall, self.name, count)
        return queue.queue.decide_send(count, size_bytes, queue.staging.count) is None

    def write(self, hall: Hall, record: Record, priority: int, group: str, now_ms: int, *, waits: bool = True) -> None:
        """Store a moved message: in the queue, or in the outbox. Inside an atomic write."""
        if self.queue is not None:
            write_records(hall, self.queue.lane_for(priority, group), [record], now_ms, message=False)
            return
        entry = OutboxEntry(
            priority=priority,
            group=group,
            timestamp_ms=record.timestamp_ms,
            key=record.key,
            value=record.value,
            headers=list(record.headers),
            waits=waits,
        )
        put(hall, self.name, entry, now_ms)

    def acknowledgement(self, hall: Hall) -> tuple[Shard, int]:
        """The shard in which a stored message is, and how many replicas acknowledge it. After `write`."""
        if self.queue is not None:
            return self.queue.shard, self.queue.acknowledgers
        outbox = hall.outboxes.by_target.get(self.name)
        partition = hall.partitions[outbox.stream] if outbox is not None else None
        return partition.shard if partition is not None else hall.shards[CATALOGUE_SHARD], ALL


def move_target(hall: Hall, name: str, source: RunningQueue | None = None) -> MoveTarget | None:
    """The target of this name for messages of `source`; None if there is no such queue, as far as is known here."""
    queue = hall.running_queue(name)
    if queue is None:
        if not hall.options.wing or not name or name in hall.outboxes.missing or not may_use_outbox(hall):
            return None
        return MoveTarget(name, None)
    if not is_apart(hall, queue, source):
        return MoveTarget(name, queue)
    return MoveTarget(name, None) if may_use_outbox(hall) else None


def is_apart(hall: Hall, queue: RunningQueue, source: RunningQueue | None = None) -> bool:
    """True if messages for this queue have to go through the outbox."""
    if queue.is_away:
        return True
    wings = queue.settings.wings
    if not wings or hall.options.wing not in wings:
        return bool(wings)
    return queue.settings.fifo and len(wings) > 1 and (source is None or source.settings.wings != wings)


def can_leave(record: Record) -> bool:
    """True if a message can move to another group. A message in chunks cannot: its chunks are in this group."""
    return not whole_of(record)[0] and len(record.value or b"") <= MESSAGE_BYTES_MAX


def takes(hall: Hall, target: RunningQueue, count: int, size_bytes: int, staged: bool = False) -> bool:
    """True if there is room for moved messages, after the oldest made it if the queue wants that.

    Messages that the target has `staged` already take room in it.
    """
    waiting = 0 if staged else target.staging.count
    for _ in range(STEPS_MAX):
        decided = target.queue.decide_send(count, size_bytes, waiting)
        if decided is None:
            return True
        if not isinstance(decided, Overflow) or decided.wait or not _make_room(hall, target, decided):
            return False
    return False


def _make_room(hall: Hall, target: RunningQueue, overflow: Overflow) -> bool:
    """Drop or move the oldest messages that are in memory; False if there are none."""
    letters = None
    if target.settings.when_full == "dead-letter":
        own = target.settings.dead_letters
        letters = move_target(hall, own.queue, target) if own is not None else None
        if letters is None or letters.queue is target:
            return False
        if not letters.has_room(hall, overflow.messages or 1, overflow.bytes):
            return False
    outcome = target.queue.decide_drop(hall.time.now_ms(), overflow.messages, overflow.bytes, target.peek)
    if not outcome.deaths:
        return False
    write_queue(hall, target, outcome.events)
    for death in outcome.deaths:
        if target.queue.lease_of(death.lane, death.offset) is not None:
            _drop(hall, target, letters, death)
    return True


def _drop(hall: Hall, target: RunningQueue, letters: MoveTarget | None, death: Death) -> None:
    record = death.candidate.payload if death.candidate is not None else None
    now_ms = hall.time.now_ms()
    target.deaths[death.reason] = target.deaths.get(death.reason, 0) + 1
    with together(hall):
        if letters is not None and isinstance(record, Record):
            fields = decode_record(record, death.lane)
            name = target.entry.name
            dead = dead_letter_record(record, fields.message_id, now_ms, name, LENGTH, death.attempts, death.first_ms)
            letters.write(hall, dead, 0, fields.group, now_ms)
        died = Died(queue=target.number, lane=death.lane, offsets=[death.offset], reason=death.reason)
        write_queue(hall, target, [died])

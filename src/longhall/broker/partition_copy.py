"""The copy of a partition that moves to another replication group: both ends, each inside its own group.

    source   read_piece      committed batches from an offset on; of a fenced log also its producers
    target   append_piece    the batches as they are stored: with their offsets, leader epochs and producers
             complete_copy   the producers of the source, and the start of its log
             prove           the log as its owner has it
    both     discard         an empty log instead of the copy, or of the log that was given away

Each call names the step of the move, and is refused unless this group has the same. The owner alone appends messages of
clients, so a committed batch of an offset is the same in every copy: pieces may be repeated, and may come from the
leader of an earlier epoch. Nothing here decides when a partition moves.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec

from longhall.broker.events import (
    CopyLogMade,
    LogTrimmed,
    OffsetsSkipped,
    PartitionRenewed,
    ProducersCopied,
    QueueRenewed,
)
from longhall.broker.feature_gates import check_moves, check_queue_moves
from longhall.broker.fetch import read_log
from longhall.broker.hall import EVENT_ROOM_BYTES, Hall
from longhall.broker.partition import Partition
from longhall.broker.queue_logs import HIDDEN_TOPIC
from longhall.broker.queues.running_queue import RunningQueue, owner_of
from longhall.broker.queues.write import together
from longhall.broker.send import ONE_ENTRY_BYTES_MAX
from longhall.broker.waiting import Commit, committed
from longhall.errors import Code, LonghallError
from longhall.names import CATALOGUE_SHARD
from longhall.queues.events import Emptied, StateCopied
from longhall.records.batch import BatchHeader, check_batch, parse_header
from longhall.shards.shard import PARTITIONS, QUEUES
from longhall.topics.partition_moves import MovePhase, PartitionMove

ROUTE: Final = -1
PIECE_BYTES: Final = 1024 * 1024  # Of one call; a single batch may be larger.


class CopyPlace(msgspec.Struct, frozen=True, array_like=True):
    """The partition of a topic that moves, and the step of its move. Of a queue that moves, `log` is the lane of one of
    its hidden logs; ROUTE means the partition itself.
    """

    topic: str
    topic_id: bytes
    move: PartitionMove
    log: int = ROUTE


class LogPiece(msgspec.Struct, array_like=True):
    """Batches of a log, and where it begins and ends. `is_last` says that the log is fenced and ends with these
    batches; then `producers` has their table, or None if there is none. `next_offset` is the offset behind the piece,
    in a log with gaps also behind what was removed; 0 in pieces of the version before.
    """

    start_offset: int
    end_offset: int
    batches: bytes
    is_last: bool = False
    producers: dict[str, Any] | None = None
    next_offset: int = 0


class CopyEnd(msgspec.Struct, array_like=True):
    """The end of a log with all its batches committed, and the number of replicas in sync."""

    end_offset: int
    in_sync: int


async def read_piece(hall: Hall, place: CopyPlace, offset: int) -> LogPiece:
    """The committed batches of the source from an offset on, or from the start of the log if that is later."""
    partition = at_step(hall, place, place.move.source, (MovePhase.COPYING, MovePhase.FENCED))
    is_final = place.move.phase is MovePhase.FENCED
    end = partition.log.next_offset
    await committed(hall, hall.shards[CATALOGUE_SHARD])  # The fence itself,
    await committed(hall, partition.shard)  # and every batch before it.
    at_step(hall, place, place.move.source, (place.move.phase,))
    start = partition.log.start_offset
    position = max(offset, start)
    batches = b""
    if position < end:
        read = await read_log(hall, partition, position, PIECE_BYTES, end)
        if read.code is not None:
            raise LonghallError(read.code, f"{place.topic}-{partition.number} cannot be read at offset {position}")
        batches = b"".join(read.buffers)
        at_step(hall, place, place.move.source, (place.move.phase,))
    behind = _end_of(batches, position) if batches else end  # The rest was removed.
    reaches = behind >= end
    producers = partition.producers.snapshot() if is_final and reaches and partition.producers is not None else None
    return LogPiece(start, end, batches, is_final and reaches, producers, behind)


async def append_piece(hall: Hall, place: CopyPlace, offset: int, piece: LogPiece) -> int:
    """Append a piece to the copy if it ends at `offset`; returns the end of the copy when it is committed."""
    partition = at_step(hall, place, place.move.target, (MovePhase.COPYING, MovePhase.FENCED))
    check_moves(hall)
    if partition.log.next_offset == offset:
        first = parse_header(piece.batches, 0).base_offset if piece.batches else max(piece.start_offset, offset)
        if first > offset and (piece.start_offset > offset or not partition.log.segments):
            _trim(hall, partition, first)  # Retention at the source was faster, or the log has not begun.
        _append_all(hall, partition, piece.batches)
        if piece.next_offset > partition.log.next_offset:
            _skip(hall, partition, piece.next_offset)
    await committed(hall, partition.shard)
    return partition.log.next_offset


async def complete_copy(hall: Hall, place: CopyPlace, piece: LogPiece) -> CopyEnd:
    """Give the copy the start and the producers of the fenced source. NOT_READY if it does not end as the source."""
    partition = at_step(hall, place, place.move.target, (MovePhase.FENCED,))
    check_moves(hall)
    if not piece.is_last or partition.log.next_offset != piece.end_offset:
        raise LonghallError(
            Code.NOT_READY, f"the copy ends at {partition.log.next_offset}, and its source at {piece.end_offset}"
        )
    check_room(hall, EVENT_ROOM_BYTES // 2)
    if piece.start_offset > partition.log.start_offset:
        _trim(hall, partition, piece.start_offset)
    if piece.producers is not None:
        event = ProducersCopied(partition=partition.log.partition, state=piece.producers)
        hall.append_event(partition.shard, PARTITIONS, event)
        partition.table().restore(piece.producers, hall.time.now_ms())
    await committed(hall, partition.shard)
    return CopyEnd(partition.log.next_offset, hall.in_sync_count)


async def prove(hall: Hall, place: CopyPlace) -> CopyEnd:
    """The committed log of the new owner."""
    partition = at_step(hall, place, place.move.target, (MovePhase.SWITCHED,))
    end = partition.log.next_offset
    await committed(hall, hall.shards[CATALOGUE_SHARD])
    await committed(hall, partition.shard)
    return CopyEnd(end, hall.in_sync_count)


async def discard(hall: Hall, place: CopyPlace) -> None:
    """Begin with an empty log in the group that is not the owner. Does nothing if it is empty."""
    move = place.move
    group = move.source if move.phase is MovePhase.SWITCHED else move.target
    partition = at_step(hall, place, group, (MovePhase.SWITCHED, MovePhase.CANCELLED))
    assert partition.elsewhere, "the owner of a partition discards nothing"
    queue = owner_of(partition)
    if queue is not None:
        await _discard_queue(hall, queue)
        return
    if partition.log.next_offset == 0:
        return
    check_moves(hall)
    check_room(hall, EVENT_ROOM_BYTES // 2)
    commit = Commit()
    renewed = PartitionRenewed(topic_id=place.topic_id, number=move.partition, partition=hall.catalogue.next_partition)
    hall.append_catalogue(renewed, commit)
    await commit.future


def at_step(hall: Hall, place: CopyPlace, group: int, phases: tuple[MovePhase, ...]) -> Partition:
    """The partition, if this hall is the group and has this step of the move. NOT_READY if it has another."""
    partition = hall.partition(place.topic, place.move.partition)
    if partition is None or partition.topic_id != place.topic_id:
        raise LonghallError(Code.UNKNOWN_TOPIC, f"This group does not have the topic '{place.topic}' that is meant.")
    move = partition.options.moves.of(partition.number)
    if group != hall.options.wing or move != place.move or place.move.phase not in phases:
        raise LonghallError(Code.NOT_READY, f"{place.topic}-{partition.number} is at another step of its move here")
    return partition if place.log == ROUTE else _hidden_log(hall, partition, place)


def _hidden_log(hall: Hall, partition: Partition, place: CopyPlace) -> Partition:
    """A hidden log of the queue at the source, or its copy at the target, made if needed."""
    queue = owner_of(partition)
    if queue is None:
        raise LonghallError(Code.NOT_READY, f"{place.topic} is not known as a queue here")
    if place.move.source == hall.options.wing:
        found = queue.lanes.get(place.log) or queue.hidden.get(place.log)
        if found is None:
            raise LonghallError(Code.NOT_READY, f"{place.topic} has no log {place.log} any more")
        return found
    number = queue.entry.copies.get(place.log)
    if number is None:
        check_queue_moves(hall)
        check_room(hall, EVENT_ROOM_BYTES // 2)
        number = hall.catalogue.next_partition
        made = CopyLogMade(queue_id=queue.entry.queue_id, partition=number, lane=place.log)
        hall.append_catalogue(made, Commit())
    return hall.partitions[number]


async def _discard_queue(hall: Hall, queue: RunningQueue) -> None:
    """Begin with empty logs and an empty state, unless that is so."""
    entry = queue.entry
    if not (entry.lanes or entry.has_moved or any(partition.log.next_offset for partition in queue.route)):
        return
    check_queue_moves(hall)
    check_room(hall, EVENT_ROOM_BYTES // 2)
    first = hall.catalogue.next_partition
    numbers = list(range(first, first + len(queue.route)))
    commit = Commit()
    with together(hall):
        hall.append_catalogue(QueueRenewed(queue_id=entry.queue_id, partitions=numbers), commit)
        write_moved(hall, queue, Emptied(queue=queue.number, lanes=numbers))
    await commit.future
    await committed(hall, queue.shard)


def write_moved(hall: Hall, queue: RunningQueue, event: StateCopied | Emptied) -> None:
    """Append and apply an event of a queue that another group serves."""
    hall.write_event(queue.shard, QUEUES, event, queue.apply)


def _end_of(batches: bytes, position: int) -> int:
    """The offset after the last batch."""
    at = 0
    while at < len(batches):
        header = parse_header(batches, at)
        position = header.next_offset
        at += header.size_bytes
    return position


def _append_all(hall: Hall, partition: Partition, batches: bytes) -> None:
    at = 0
    while at < len(batches):
        header = check_batch(batches, at, len(batches))
        end = partition.log.next_offset
        if header.base_offset > end and _may_have_gaps(partition):
            _skip(hall, partition, header.base_offset)
        elif header.base_offset != end:
            raise LonghallError(Code.STORAGE_DAMAGED, f"{partition.topic} has a gap at offset {end}")
        check_room(hall, header.size_bytes + EVENT_ROOM_BYTES)
        _append(hall, partition, header, batches[at : at + header.size_bytes])
        at += header.size_bytes


def _append(hall: Hall, partition: Partition, header: BatchHeader, stored: bytes) -> None:
    """Append and apply a batch as it is stored."""
    now_ms = hall.time.now_ms()
    try:
        flags = partition.log.append(header, stored, now_ms)
    except OSError as error:
        raise LonghallError(hall.refuse_storage(error), str(error)) from None
    try:
        if header.size_bytes > ONE_ENTRY_BYTES_MAX:
            partition.shard.append_batch_in_parts(partition.log.partition, flags, stored)
        else:
            partition.shard.append_batch(partition.log.partition, flags, stored)
        hall.note_tail(partition, header.size_bytes)
        partition.fold(header, stored, now_ms)
    except LonghallError:  # This node has lost leadership, and its hall is about to be discarded.
        raise
    except Exception as error:
        hall.halt(error)
        raise
    hall.journal.touch(partition.shard, True)
    partition.shard.wait(partition, header.next_offset)
    hall.commits.kick()


def _may_have_gaps(partition: Partition) -> bool:
    """True if messages are removed from the middle of the log: superseded ones, or those that a queue has settled."""
    is_hidden = partition.topic_id == HIDDEN_TOPIC
    return is_hidden or partition.options.compacts or owner_of(partition) is not None


def _skip(hall: Hall, partition: Partition, next_offset: int) -> None:
    """Continue at this offset: the source has removed everything before it."""
    check_queue_moves(hall)
    check_room(hall, EVENT_ROOM_BYTES // 2)
    event = OffsetsSkipped(partition=partition.log.partition, next_offset=next_offset)
    hall.append_event(partition.shard, PARTITIONS, event)
    partition.log.skip_to(next_offset)
    partition.shard.wait(partition, next_offset)


def _trim(hall: Hall, partition: Partition, start_offset: int) -> None:
    """Move the start of the copy; its end is not before it."""
    check_room(hall, EVENT_ROOM_BYTES // 2)
    event = LogTrimmed(partition=partition.log.partition, start_offset=start_offset)
    hall.append_event(partition.shard, PARTITIONS, event)
    hall.trim(partition, start_offset)
    partition.high_watermark = max(partition.high_watermark, start_offset)


def check_room(hall: Hall, size_bytes: int) -> None:
    """Raises a retriable error if this group takes no messages now."""
    refusal = hall.refusal_for(0, leader_only=False)
    if refusal is None and hall.is_backed_up:
        refusal = Code.COMMIT_BACKLOG
    if refusal is None and (hall.storage_full or not hall.has_room(size_bytes)):
        refusal = Code.STORAGE_FULL
    if refusal is not None:
        raise LonghallError(refusal, "the group that takes the copy has no room at the moment")

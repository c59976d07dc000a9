"""The copy of a queue that moves to another replication group: its hidden logs, and its state at the fence.

    source   list_logs        the hidden logs, with their purposes, and the lanes of the partitions
             read_state       of a fenced queue: cursor, staging, deduplication, arrivals, the key of its receipts
    target   append_state     a piece of the state
             complete_queue   the last piece; the copies become the logs of the queue under the lanes of the source

The logs themselves are copied by `partition_copy`. Lanes keep their numbers, so receipts, message ids and
deduplication mean the same in every group. The state is one string of bytes, made once at the step of the fence. All
its pieces have its checksum, which the target verifies: pieces of another attempt have another, and the mover begins
again.
"""

from __future__ import annotations

import zlib
from typing import Final

import msgspec

from longhall.broker.events import CopyCompleted
from longhall.broker.feature_gates import check_queue_moves
from longhall.broker.hall import EVENT_ROOM_BYTES, Hall
from longhall.broker.partition import Partition
from longhall.broker.partition_copy import CopyEnd, CopyPlace, at_step, check_room, write_moved
from longhall.broker.queues.running_queue import RunningQueue, owner_of
from longhall.broker.queues.write import together
from longhall.broker.waiting import Commit, committed
from longhall.errors import Code, LonghallError
from longhall.names import CATALOGUE_SHARD
from longhall.queues.events import StateCopied
from longhall.topics.partition_moves import MovePhase

STATE_PIECE_BYTES: Final = 512 * 1024
STATE_BYTES_MAX: Final = 128 * 1024 * 1024  # Leases, settled offsets and deduplication ids of a queue that moves.


class QueueLogs(msgspec.Struct, array_like=True):
    """The logs of a queue: the lanes of its partitions in their order, and its hidden logs by lane, with their purpose
    and their end.
    """

    route: list[int]
    hidden: dict[int, tuple[str, int]]


class StatePiece(msgspec.Struct, array_like=True):
    """A part of the state of a queue, with the size and the checksum of the whole state."""

    total: int
    checksum: int
    piece: bytes


async def list_logs(hall: Hall, place: CopyPlace) -> QueueLogs:
    """The logs of the queue at the source, as they are committed."""
    queue = _queue(at_step(hall, place, place.move.source, (MovePhase.COPYING, MovePhase.FENCED)))
    if any(messages.has_lane(lane) for messages in hall.chunked_messages for lane in queue.lanes):
        raise LonghallError(Code.INVALID_REQUEST, "it has messages in chunks, which stay in their replication group")
    logs = QueueLogs([partition.lane for partition in queue.route], {})
    for partition in [*queue.levels.values(), *queue.hidden.values()]:
        logs.hidden[partition.lane] = (queue.entry.lanes[partition.log.partition], partition.log.next_offset)
    await _committed(hall, queue)
    at_step(hall, place, place.move.source, (place.move.phase,))
    return logs


async def read_state(hall: Hall, place: CopyPlace, at: int) -> StatePiece:
    """A piece of the state of a fenced queue."""
    queue = _queue(at_step(hall, place, place.move.source, (MovePhase.FENCED,)))
    await _committed(hall, queue)
    at_step(hall, place, place.move.source, (MovePhase.FENCED,))
    if queue.outgoing[0] != place.move.step:
        queue.outgoing = (place.move.step, queue.state_for_copy())
    state = queue.outgoing[1]
    if len(state) > STATE_BYTES_MAX:
        raise LonghallError(Code.INVALID_REQUEST, f"its state is larger than {STATE_BYTES_MAX} bytes")
    return StatePiece(len(state), zlib.crc32(state), state[at : at + STATE_PIECE_BYTES])


async def append_state(hall: Hall, place: CopyPlace, at: int, piece: StatePiece) -> None:
    """Store a piece of the state, other than the last one, at the target."""
    queue = _queue(at_step(hall, place, place.move.target, (MovePhase.FENCED,)))
    check_queue_moves(hall)
    check_room(hall, EVENT_ROOM_BYTES)
    assert at + len(piece.piece) < piece.total, "the last piece completes the copy"
    write_moved(hall, queue, StateCopied(queue=queue.number, at=at, total=piece.total, piece=piece.piece))
    await committed(hall, queue.shard)


async def complete_queue(hall: Hall, place: CopyPlace, logs: QueueLogs, at: int, piece: StatePiece) -> CopyEnd:
    """Store the last piece of the state, and use the copies. NOT_READY if a piece or a part of a log is missing."""
    partition = at_step(hall, place, place.move.target, (MovePhase.FENCED,))
    queue = _queue(partition)
    check_queue_moves(hall)
    check_room(hall, EVENT_ROOM_BYTES)
    follows = at in (0, len(queue.incoming))  # At 0 the state begins anew.
    if not follows or at + len(piece.piece) != piece.total:
        raise LonghallError(Code.NOT_READY, "a piece of the state is missing; it is copied again")
    if zlib.crc32(piece.piece, zlib.crc32(queue.incoming if at else b"")) != piece.checksum:
        raise LonghallError(Code.NOT_READY, "the pieces of the state are of several attempts; it is copied again")
    lanes: dict[int, str] = {}
    numbers = {one.log.partition: lane for one, lane in zip(queue.route, logs.route, strict=True)}
    for lane, (key, end) in logs.hidden.items():
        copy = hall.partitions.get(queue.entry.copies.get(lane, -1))
        if copy is None or copy.log.next_offset != end:
            raise LonghallError(Code.NOT_READY, f"the copy of the log {lane} is not complete")
        lanes[copy.log.partition] = key
        numbers[copy.log.partition] = lane
    with together(hall):
        write_moved(hall, queue, StateCopied(queue=queue.number, at=at, total=piece.total, piece=piece.piece))
        completed = CopyCompleted(queue_id=queue.entry.queue_id, lanes=lanes, numbers=numbers)
        hall.append_catalogue(completed, Commit())
    await _committed(hall, queue)
    return CopyEnd(queue.route[0].log.next_offset, hall.in_sync_count)


def _queue(partition: Partition) -> RunningQueue:
    queue = owner_of(partition)
    if queue is None:
        raise LonghallError(Code.NOT_READY, f"{partition.topic} is not known as a queue here")
    return queue


async def _committed(hall: Hall, queue: RunningQueue) -> None:
    """Wait for the fence itself, and everything that was written to the queue before it."""
    await committed(hall, hall.shards[CATALOGUE_SHARD])
    await committed(hall, queue.shard)

"""Operations of the hall's leader on both ends of a partition that moves between replication groups."""

from __future__ import annotations

from longhall.broker.partition_copy import CopyEnd, CopyPlace, LogPiece
from longhall.broker.queue_copy import QueueLogs, StatePiece
from longhall.cluster.rpc.operation import Operation


class ReadPiece(Operation[LogPiece]):
    """Read committed batches of the source from an offset on."""

    place: CopyPlace
    offset: int


class AppendPiece(Operation[int]):
    """Append batches to the copy if it ends at this offset; the reply is its end."""

    place: CopyPlace
    offset: int
    piece: LogPiece


class CompleteCopy(Operation[CopyEnd]):
    """Give the copy the producers and the start of its fenced source."""

    place: CopyPlace
    piece: LogPiece


class ProveCopy(Operation[CopyEnd]):
    """The committed log of the new owner, and how many replicas are in sync."""

    place: CopyPlace


class DiscardCopy(Operation[None]):
    """Have the group that is not the owner begin with an empty log."""

    place: CopyPlace


class ListQueueLogs(Operation[QueueLogs]):
    """The logs of a queue at the source."""

    place: CopyPlace


class ReadQueueState(Operation[StatePiece]):
    """A piece of the state of a fenced queue."""

    place: CopyPlace
    at: int


class AppendQueueState(Operation[None]):
    """Store a piece of the state of a queue at the target."""

    place: CopyPlace
    at: int
    piece: StatePiece


class CompleteQueueCopy(Operation[CopyEnd]):
    """Give the copy the last piece of the state, and have it use its logs."""

    place: CopyPlace
    logs: QueueLogs
    at: int
    piece: StatePiece

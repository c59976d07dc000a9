"""Operations on the placement of existing topics: move their partitions to other replication groups."""

from __future__ import annotations

import msgspec

from longhall.cluster.rpc.operation import Operation


class MovingPartition(msgspec.Struct, kw_only=True):
    """A partition that moves, or with the partition -1 a whole queue. Groups have names; `hall` is the main one.
    `problem` says what it waits for.
    """

    topic: str
    partition: int
    source: str
    target: str
    phase: str
    copied_bytes: int = 0
    left_messages: int | None = None
    problem: str = ""


class PlaceQueue(Operation[int]):
    """Change the placement of a queue, or with `group` the group that has it: it begins to move. The reply is the
    number of its partitions that do.
    """

    queue: str
    placement: str = ""
    group: str = ""


class CancelQueueMove(Operation[int]):
    """Cancel the move of a queue. The reply is the number of its partitions that stay."""

    queue: str


class PlaceTopic(Operation[int]):
    """Change the placement of a topic: its partitions begin to move. The reply is their number."""

    topic: str
    placement: str


class MovePartitions(Operation[int]):
    """Begin to move partitions of a topic to groups, by the names of these. The reply is their number."""

    topic: str
    targets: dict[int, str]


class CancelPartitionMoves(Operation[int]):
    """Cancel the moves of a topic, or of these partitions of it. The reply is their number."""

    topic: str
    partitions: list[int] | None = None


class ListPartitionMoves(Operation[list[MovingPartition]]):
    """All moves that are under way, with their progress."""

"""Operations of the hall's leader on another replication group, about the positions of share groups there."""

from __future__ import annotations

from longhall.broker.share.offsets import SharePosition
from longhall.cluster.rpc.operation import Operation


class ListShareGroups(Operation[list[str]]):
    """The share groups that have cursors of their own in this group."""


class ListShareTopics(Operation[list[str]]):
    """The topics in this group on which a share group has cursors of its own."""

    group_id: str


class DescribeSharePositions(Operation[list[SharePosition]]):
    """The positions of a share group in these partitions, in their order."""

    group_id: str
    topic: str
    partitions: list[int]


class MoveSharePositions(Operation[None]):
    """Let a share group, with these settings, go on from these offsets, by partition. All of them, or LonghallError."""

    group_id: str
    topic: str
    offsets: dict[int, int]
    settings: dict[str, str]


class DeleteSharePositions(Operation[None]):
    """Delete the cursors of a share group on a topic; UNKNOWN_TOPIC if it has none here."""

    group_id: str
    topic: str


class DeleteShareGroup(Operation[None]):
    """Delete all cursors of a share group's own in this group."""

    group_id: str

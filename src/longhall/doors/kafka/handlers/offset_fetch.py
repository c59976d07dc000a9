"""OffsetFetch: the committed offsets of groups."""

from __future__ import annotations

from typing import TypeVar

from longhall.directory.access_rules import AccessAction
from longhall.doors.kafka.authorization import may_describe, topic_error
from longhall.doors.kafka.connection import Call
from longhall.doors.kafka.door import Door
from longhall.doors.kafka.errors import error_of
from longhall.doors.kafka.wire.messages.commits import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponseGroupTopic,
    OffsetFetchResponseGroupTopicPartition,
    OffsetFetchResponsePartition,
    OffsetFetchResponseTopic,
)
from longhall.errors import Code
from longhall.topics.views import FetchedOffset

MANY_GROUPS_FROM = 8
TOPIC_IDS_FROM = 10

Row = TypeVar("Row", OffsetFetchResponsePartition, OffsetFetchResponseGroupTopicPartition)


async def handle(door: Door, request: OffsetFetchRequest, call: Call) -> OffsetFetchResponse:
    if call.header.version >= MANY_GROUPS_FROM:
        by_id = call.header.version >= TOPIC_IDS_FROM
        groups = [await _group(door, group, request.require_stable, by_id, call) for group in request.groups]
        return OffsetFetchResponse(groups=groups)
    wanted = None
    if request.topics is not None:
        wanted = [(topic.name, number) for topic in request.topics for number in topic.partition_indexes]
    found = await door.coordinator.fetch_offsets(request.group_id, wanted, request.require_stable)
    return OffsetFetchResponse(
        topics=[
            OffsetFetchResponseTopic(
                name=name,
                partitions=[_partition(OffsetFetchResponsePartition, row, refused) for row in rows],
            )
            for name, rows, refused in _seen(door, call, _by_topic(found), wanted is None)
        ]
    )


async def _group(
    door: Door, group: OffsetFetchRequestGroup, require_stable: bool, by_id: bool, call: Call
) -> OffsetFetchResponseGroup:
    code = door.coordinator.check_fetch(group.group_id, group.member_id, group.member_epoch)
    if code is not None:
        return OffsetFetchResponseGroup(group_id=group.group_id, error_code=error_of(code))
    wanted = None
    unknown: list[OffsetFetchResponseGroupTopic] = []
    if group.topics is not None:
        wanted = []
        for topic in group.topics:
            name = door.hall.topic_name(topic.topic_id) if by_id else topic.name
            if by_id and not name:
                unknown.append(_unknown(topic.topic_id, topic.partition_indexes))
                continue
            wanted += [(name, number) for number in topic.partition_indexes]
    found = await door.coordinator.fetch_offsets(group.group_id, wanted, require_stable)
    topics = [
        OffsetFetchResponseGroupTopic(
            name=name,
            topic_id=_topic_id(door, name),
            partitions=[_partition(OffsetFetchResponseGroupTopicPartition, row, refused) for row in rows],
        )
        for name, rows, refused in _seen(door, call, _by_topic(found), wanted is None)
    ]
    return OffsetFetchResponseGroup(group_id=group.group_id, topics=topics + unknown)


def _seen(
    door: Door, call: Call, found: dict[str, list[FetchedOffset]], everything: bool
) -> list[tuple[str, list[FetchedOffset], int]]:
    """The topics that the client may see, and with their error those that it named and may not see."""
    if everything:
        return [(name, rows, 0) for name, rows in found.items() if may_describe(door, call.caller, name)]
    return [(name, rows, topic_error(door, call.caller, AccessAction.DESCRIBE, name)) for name, rows in found.items()]


def _partition(row_class: type[Row], found: FetchedOffset, refused: int) -> Row:
    if refused:
        return row_class(partition_index=found.partition, committed_offset=-1, metadata="", error_code=refused)
    return row_class(
        partition_index=found.partition,
        committed_offset=found.offset,
        committed_leader_epoch=found.leader_epoch,
        metadata=found.metadata,
        error_code=error_of(found.code),
    )


def _unknown(topic_id: bytes, numbers: list[int]) -> OffsetFetchResponseGroupTopic:
    return OffsetFetchResponseGroupTopic(
        topic_id=topic_id,
        partitions=[
            OffsetFetchResponseGroupTopicPartition(partition_index=number, error_code=error_of(Code.UNKNOWN_TOPIC_ID))
            for number in numbers
        ],
    )


def _topic_id(door: Door, name: str) -> bytes:
    topic = door.hall.topic(name)
    return topic.topic_id if topic is not None else bytes(16)


def _by_topic(found: list[FetchedOffset]) -> dict[str, list[FetchedOffset]]:
    topics: dict[str, list[FetchedOffset]] = {}
    for row in found:
        topics.setdefault(row.topic, []).append(row)
    return topics

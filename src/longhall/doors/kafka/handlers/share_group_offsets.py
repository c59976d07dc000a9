"""DescribeShareGroupOffsets, AlterShareGroupOffsets, DeleteShareGroupOffsets: the positions of share groups."""

from __future__ import annotations

from longhall.broker.share.cursors import own_cursors
from longhall.broker.share.offsets import delete_positions, move_positions, position_of
from longhall.doors.kafka.connection import Call
from longhall.doors.kafka.door import Door
from longhall.doors.kafka.errors import error_of
from longhall.doors.kafka.wire.messages.share_offsets import (
    AlterShareGroupOffsetsRequest,
    AlterShareGroupOffsetsRequestTopic,
    AlterShareGroupOffsetsResponse,
    AlterShareGroupOffsetsResponsePartition,
    AlterShareGroupOffsetsResponseTopic,
    DeleteShareGroupOffsetsRequest,
    DeleteShareGroupOffsetsResponse,
    DeleteShareGroupOffsetsResponseTopic,
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsRequestGroup,
    DescribeShareGroupOffsetsResponse,
    DescribeShareGroupOffsetsResponseGroup,
    DescribeShareGroupOffsetsResponsePartition,
    DescribeShareGroupOffsetsResponseTopic,
)
from longhall.errors import Code, LonghallError

NO_ID = bytes(16)


def describe(door: Door, request: DescribeShareGroupOffsetsRequest, call: Call) -> DescribeShareGroupOffsetsResponse:
    return DescribeShareGroupOffsetsResponse(groups=[_describe(door, group) for group in request.groups])


def _describe(door: Door, asked: DescribeShareGroupOffsetsRequestGroup) -> DescribeShareGroupOffsetsResponseGroup:
    group = door.share_groups.find(asked.group_id)
    if group is None:
        return DescribeShareGroupOffsetsResponseGroup(
            group_id=asked.group_id,
            error_code=error_of(Code.GROUP_UNKNOWN),
            error_message=f"Group {asked.group_id} not found.",
        )
    if asked.topics is not None:
        wanted = {topic.topic_name: list(topic.partitions) for topic in asked.topics}
    else:
        names = {door.hall.topic_name(queue.entry.topic_id) for queue in own_cursors(door.hall, asked.group_id)}
        names.update(name for member in group.members.values() for _, name, _ in member.assigned)
        wanted = {name: list(range(len(door.hall.shown(name) or ()))) for name in sorted(names)}
    return DescribeShareGroupOffsetsResponseGroup(
        group_id=asked.group_id,
        topics=[_topic(door, asked.group_id, name, numbers) for name, numbers in wanted.items()],
    )


def _topic(door: Door, group_id: str, name: str, numbers: list[int]) -> DescribeShareGroupOffsetsResponseTopic:
    topic = door.hall.topic(name)
    return DescribeShareGroupOffsetsResponseTopic(
        topic_name=name,
        topic_id=topic.topic_id if topic is not None else NO_ID,
        partitions=[_partition(door, group_id, name, number) for number in numbers],
    )


def _partition(door: Door, group_id: str, name: str, number: int) -> DescribeShareGroupOffsetsResponsePartition:
    partition = door.hall.partition(name, number)
    row = DescribeShareGroupOffsetsResponsePartition(partition_index=number, start_offset=-1)
    try:
        if partition is None:
            raise LonghallError(Code.UNKNOWN_TOPIC, f"There is no partition {number} of '{name}'.")
        position = position_of(door.hall, group_id, partition)
    except LonghallError as error:
        row.error_code, row.error_message = error_of(error.code), str(error)
        return row
    row.start_offset, row.leader_epoch, row.lag = position
    return row


async def alter(door: Door, request: AlterShareGroupOffsetsRequest, call: Call) -> AlterShareGroupOffsetsResponse:
    try:
        door.share_groups.create_empty(request.group_id)
    except LonghallError as error:
        return AlterShareGroupOffsetsResponse(error_code=error_of(error.code), error_message=str(error))
    return AlterShareGroupOffsetsResponse(
        responses=[await _alter(door, request.group_id, topic) for topic in request.topics]
    )


async def _alter(
    door: Door, group_id: str, asked: AlterShareGroupOffsetsRequestTopic
) -> AlterShareGroupOffsetsResponseTopic:
    topic = door.hall.topic(asked.topic_name)
    code, message = 0, None
    try:
        offsets = {part.partition_index: part.start_offset for part in asked.partitions}
        settings = door.share_groups.settings_of(group_id)
        await move_positions(door.hall, group_id, asked.topic_name, offsets, settings)
    except LonghallError as error:
        code, message = error_of(error.code), str(error)
    return AlterShareGroupOffsetsResponseTopic(
        topic_name=asked.topic_name,
        topic_id=topic.topic_id if topic is not None else NO_ID,
        partitions=[
            AlterShareGroupOffsetsResponsePartition(
                partition_index=part.partition_index, error_code=code, error_message=message
            )
            for part in asked.partitions
        ],
    )


async def delete(door: Door, request: DeleteShareGroupOffsetsRequest, call: Call) -> DeleteShareGroupOffsetsResponse:
    try:
        door.share_groups.check_empty(request.group_id)
    except LonghallError as error:
        return DeleteShareGroupOffsetsResponse(error_code=error_of(error.code), error_message=str(error))
    rows: list[DeleteShareGroupOffsetsResponseTopic] = []
    for asked in request.topics:
        topic = door.hall.topic(asked.topic_name)
        row = DeleteShareGroupOffsetsResponseTopic(
            topic_name=asked.topic_name, topic_id=topic.topic_id if topic is not None else NO_ID
        )
        try:
            await delete_positions(door.hall, request.group_id, asked.topic_name)
        except LonghallError as error:
            row.error_code, row.error_message = error_of(error.code), str(error)
        rows.append(row)
    return DeleteShareGroupOffsetsResponse(responses=rows)

"""DescribeShareGroupOffsets, AlterShareGroupOffsets, DeleteShareGroupOffsets: the positions of share groups."""

from __future__ import annotations

from longhall.broker.share.offsets import SharePosition
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


async def describe(
    door: Door, request: DescribeShareGroupOffsetsRequest, call: Call
) -> DescribeShareGroupOffsetsResponse:
    return DescribeShareGroupOffsetsResponse(groups=[await _describe(door, group) for group in request.groups])


async def _describe(door: Door, asked: DescribeShareGroupOffsetsRequestGroup) -> DescribeShareGroupOffsetsResponseGroup:
    described = DescribeShareGroupOffsetsResponseGroup(group_id=asked.group_id)
    try:
        _check_name(asked.group_id)
        group = await door.share_groups.find(asked.group_id)
        if group is None:
            raise LonghallError(Code.GROUP_UNKNOWN, f"Group {asked.group_id} not found.")
        if asked.topics is not None:
            wanted = {topic.topic_name: list(topic.partitions) for topic in asked.topics}
        else:
            names = await door.share_groups.positions.topics(asked.group_id)
            names.update(name for member in group.members.values() for _, name, _ in member.assigned)
            wanted = {name: list(range(len(door.hall.shown(name) or ()))) for name in sorted(names)}
        described.topics = [await _topic(door, asked.group_id, name, numbers) for name, numbers in wanted.items()]
    except LonghallError as error:
        described.error_code, described.error_message = error_of(error.code), str(error)
    return described


def _check_name(group_id: str) -> None:
    if not group_id:
        raise LonghallError(Code.INVALID_GROUP_ID, "The group has no id.")


async def _topic(door: Door, group_id: str, name: str, numbers: list[int]) -> DescribeShareGroupOffsetsResponseTopic:
    topic = door.hall.topic(name)
    positions = await door.share_groups.positions.describe(group_id, name, numbers)
    return DescribeShareGroupOffsetsResponseTopic(
        topic_name=name,
        topic_id=topic.topic_id if topic is not None else NO_ID,
        partitions=[_partition(number, position) for number, position in zip(numbers, positions, strict=True)],
    )


def _partition(number: int, position: SharePosition) -> DescribeShareGroupOffsetsResponsePartition:
    row = DescribeShareGroupOffsetsResponsePartition(partition_index=number, start_offset=-1)
    if position.code is Code.UNKNOWN_TOPIC:
        return row  # A group has no position there, as Kafka has it; that is no error.
    if position.code is not None:
        row.error_code, row.error_message = error_of(position.code), position.message
    else:
        row.start_offset, row.leader_epoch, row.lag = position.start_offset, position.leader_epoch, position.lag
    return row


async def alter(door: Door, request: AlterShareGroupOffsetsRequest, call: Call) -> AlterShareGroupOffsetsResponse:
    try:
        _check_name(request.group_id)
        await door.share_groups.create_empty(request.group_id)
    except LonghallError as error:
        return AlterShareGroupOffsetsResponse(error_code=error_of(error.code), error_message=str(error))
    return AlterShareGroupOffsetsResponse(
        responses=[await _alter(door, request.group_id, topic) for topic in request.topics]
    )


async def _alter(
    door: Door, group_id: str, asked: AlterShareGroupOffsetsRequestTopic
) -> AlterShareGroupOffsetsResponseTopic:
    topic = door.hall.topic(asked.topic_name)
    offsets = {part.partition_index: part.start_offset for part in asked.partitions}
    refused = await door.share_groups.positions.move(group_id, asked.topic_name, offsets)
    return AlterShareGroupOffsetsResponseTopic(
        topic_name=asked.topic_name,
        topic_id=topic.topic_id if topic is not None else NO_ID,
        partitions=[
            AlterShareGroupOffsetsResponsePartition(
                partition_index=number,
                error_code=error_of(error.code if error is not None else None),
                error_message=str(error) if error is not None else None,
            )
            for number, error in ((number, refused.get(number)) for number in offsets)
        ],
    )


async def delete(door: Door, request: DeleteShareGroupOffsetsRequest, call: Call) -> DeleteShareGroupOffsetsResponse:
    try:
        _check_name(request.group_id)
        await door.share_groups.check_empty(request.group_id)
    except LonghallError as error:
        return DeleteShareGroupOffsetsResponse(error_code=error_of(error.code), error_message=str(error))
    rows: list[DeleteShareGroupOffsetsResponseTopic] = []
    for asked in request.topics:
        topic = door.hall.topic(asked.topic_name)
        row = DeleteShareGroupOffsetsResponseTopic(
            topic_name=asked.topic_name, topic_id=topic.topic_id if topic is not None else NO_ID
        )
        try:
            await door.share_groups.positions.delete(request.group_id, asked.topic_name)
        except LonghallError as error:
            row.error_code, row.error_message = error_of(error.code), str(error)
        rows.append(row)
    return DeleteShareGroupOffsetsResponse(responses=rows)

"""OffsetDelete: delete committed offsets of a group."""

from __future__ import annotations

from longhall.doors.kafka.connection import Call
from longhall.doors.kafka.door import Door
from longhall.doors.kafka.errors import error_of
from longhall.doors.kafka.wire.messages.commits import (
    OffsetDeleteRequest,
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)
from longhall.errors import Code


async def handle(door: Door, request: OffsetDeleteRequest, call: Call) -> OffsetDeleteResponse:
    if not request.group_id:
        return OffsetDeleteResponse(error_code=error_of(Code.INVALID_GROUP_ID))
    wanted = tuple((topic.name, part.partition_index) for topic in request.topics for part in topic.partitions)
    result = await door.coordinator.delete_offsets(request.group_id, wanted)
    if result.code is not None:
        return OffsetDeleteResponse(error_code=error_of(result.code))
    return OffsetDeleteResponse(
        topics=[
            OffsetDeleteResponseTopic(
                name=topic.name,
                partitions=[
                    OffsetDeleteResponsePartition(
                        partition_index=part.partition_index,
                        error_code=error_of(result.refused.get((topic.name, part.partition_index))),
                    )
                    for part in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )

"""ListOffsets: the first offset, the last one, or the one at a timestamp."""

from __future__ import annotations

from typing import Final

from longhall.broker.offset_lookup import (
    EARLIEST,
    EARLIEST_LOCAL,
    EARLIEST_PENDING_UPLOAD,
    LATEST,
    LATEST_TIERED,
    NEWEST,
    look_up_offset,
)
from longhall.doors.kafka.connection import Call
from longhall.doors.kafka.door import Door
from longhall.doors.kafka.errors import error_of
from longhall.doors.kafka.wire.messages.offsets import (
    ListOffsetsRequest,
    ListOffsetsRequestPartition,
    ListOffsetsResponse,
    ListOffsetsResponsePartition,
    ListOffsetsResponseTopic,
)
from longhall.errors import Code, LonghallError

# The version from which each negative timestamp has a meaning.
MEANT_FROM: Final = {
    LATEST: 1,
    EARLIEST: 1,
    NEWEST: 7,
    EARLIEST_LOCAL: 8,
    LATEST_TIERED: 9,
    EARLIEST_PENDING_UPLOAD: 11,
}


async def handle(door: Door, request: ListOffsetsRequest, call: Call) -> ListOffsetsResponse:
    committed = request.isolation_level == 1
    topics: list[ListOffsetsResponseTopic] = []
    for topic in request.topics:
        rows = [await _locate(door, topic.name, part, committed, call.header.version) for part in topic.partitions]
        topics.append(ListOffsetsResponseTopic(name=topic.name, partitions=rows))
    return ListOffsetsResponse(topics=topics)


async def _locate(
    door: Door, name: str, part: ListOffsetsRequestPartition, committed: bool, version: int
) -> ListOffsetsResponsePartition:
    row = ListOffsetsResponsePartition(partition_index=part.partition_index)
    partition = door.hall.partition(name, part.partition_index)
    if partition is None:
        row.error_code = error_of(door.unknown(False))
        return row
    if part.timestamp < 0 and version < MEANT_FROM.get(part.timestamp, version + 1):
        row.error_code = error_of(Code.UNSUPPORTED_VERSION)
        return row
    try:
        place = await look_up_offset(door.hall, partition, part.timestamp, committed, part.current_leader_epoch)
    except LonghallError as error:
        row.error_code = error_of(error.code)
        return row
    if place is not None:
        row.offset, row.timestamp, row.leader_epoch = place
    return row

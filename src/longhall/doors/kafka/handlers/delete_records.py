"""DeleteRecords: move the start offset of logs forward."""

from __future__ import annotations

from longhall.broker.system_topics import refuse_system_topic
from longhall.broker.topic_administration import trim_log
from longhall.doors.kafka.connection import Call
from longhall.doors.kafka.door import Door
from longhall.doors.kafka.errors import error_of
from longhall.doors.kafka.wire.messages.offsets import (
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsResponsePartition,
    DeleteRecordsResponseTopic,
)
from longhall.errors import LonghallError


async def handle(door: Door, request: DeleteRecordsRequest, call: Call) -> DeleteRecordsResponse:
    topics: list[DeleteRecordsResponseTopic] = []
    for topic in request.topics:
        rows = [await _trim(door, topic.name, part.partition_index, part.offset) for part in topic.partitions]
        topics.append(DeleteRecordsResponseTopic(name=topic.name, partitions=rows))
    return DeleteRecordsResponse(topics=topics)


async def _trim(door: Door, name: str, number: int, offset: int) -> DeleteRecordsResponsePartition:
    row = DeleteRecordsResponsePartition(partition_index=number)
    partition = door.hall.partition(name, number)
    if partition is None:
        row.error_code = error_of(door.unknown(False))
        return row
    try:
        refuse_system_topic(name)
        row.low_watermark = await trim_log(door.hall, partition, offset)
    except LonghallError as error:
        row.error_code = error_of(error.code)
    return row

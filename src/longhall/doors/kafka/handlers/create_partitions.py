"""CreatePartitions: add partitions to topics."""

from __future__ import annotations

from longhall.doors.kafka import topic_operations
from longhall.doors.kafka.connection import Call
from longhall.doors.kafka.door import Door
from longhall.doors.kafka.duplicates import once_and_more, repeated_topics
from longhall.doors.kafka.errors import error_of
from longhall.doors.kafka.wire.messages.topics import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsResponseTopic,
)
from longhall.errors import LonghallError


async def handle(door: Door, request: CreatePartitionsRequest, call: Call) -> CreatePartitionsResponse:
    once, more = once_and_more(topic.name for topic in request.topics)
    rows = repeated_topics(CreatePartitionsResponseTopic, more)
    for topic in request.topics:
        if topic.name not in once:
            continue
        row = CreatePartitionsResponseTopic(name=topic.name)
        try:
            assignments = None if topic.assignments is None else [row.broker_ids for row in topic.assignments]
            await topic_operations.add_partitions(
                door.hall, door.node_id, topic.name, topic.count, assignments, request.validate_only
            )
        except LonghallError as error:
            row.error_code = error_of(error.code)
            row.error_message = str(error)
        rows.append(row)
    return CreatePartitionsResponse(results=rows)

"""DeleteTopics: delete topics with everything in them."""

from __future__ import annotations

from longhall.doors.kafka import topic_operations
from longhall.doors.kafka.connection import Call
from longhall.doors.kafka.door import Door
from longhall.doors.kafka.errors import error_of
from longhall.doors.kafka.wire.messages.topics import (
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicsResponseTopic,
)
from longhall.doors.kafka.wire.schema import NO_ID
from longhall.errors import Code, LonghallError

BY_ID_FROM = 6


async def handle(door: Door, request: DeleteTopicsRequest, call: Call) -> DeleteTopicsResponse:
    if call.header.version < BY_ID_FROM:
        return DeleteTopicsResponse(responses=[await _delete(door, name, NO_ID) for name in request.topic_names])
    return DeleteTopicsResponse(
        responses=[await _delete(door, topic.name or "", topic.topic_id) for topic in request.topics]
    )


async def _delete(door: Door, name: str, topic_id: bytes) -> DeleteTopicsResponseTopic:
    """Delete the topic of this name; of this id without a name, for which the response has no name either."""
    try:
        deleted = await topic_operations.delete_topic(door.hall, name, topic_id)
    except LonghallError as error:
        code = error_of(error.code)
        if error.code is Code.UNKNOWN_TOPIC_ID:
            return DeleteTopicsResponseTopic(name=None, topic_id=topic_id, error_code=code)
        return DeleteTopicsResponseTopic(name=name, error_code=code, error_message=str(error))
    return DeleteTopicsResponseTopic(name=deleted.name, topic_id=deleted.topic_id)

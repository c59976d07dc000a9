"""DeleteTopics: topics and everything in them."""

from __future__ import annotations

from longhall.broker.topic_administration import delete_topic
from longhall.doors.kafka.connection import Call
from longhall.doors.kafka.door import Door
from longhall.doors.kafka.errors import error_of
from longhall.doors.kafka.wire.messages.topics import (
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicsResponseTopic,
)
from longhall.errors import Code, LonghallError

BY_ID_FROM = 6


async def handle(door: Door, request: DeleteTopicsRequest, call: Call) -> DeleteTopicsResponse:
    rows: list[DeleteTopicsResponseTopic] = []
    if call.header.version < BY_ID_FROM:
        for name in request.topic_names:
            rows.append(await _delete(door, name))
        return DeleteTopicsResponse(responses=rows)
    for topic in request.topics:
        wanted = topic.name if topic.name is not None else door.hall.topic_name(topic.topic_id)
        if not wanted:
            code = error_of(Code.UNKNOWN_TOPIC_ID)
            rows.append(DeleteTopicsResponseTopic(name=None, topic_id=topic.topic_id, error_code=code))
        else:
            rows.append(await _delete(door, wanted))
    return DeleteTopicsResponse(responses=rows)


async def _delete(door: Door, name: str) -> DeleteTopicsResponseTopic:
    topic = door.hall.topic(name)
    try:
        await delete_topic(door.hall, name)
    except LonghallError as error:
        return DeleteTopicsResponseTopic(name=name, error_code=error_of(error.code), error_message=str(error))
    return DeleteTopicsResponseTopic(name=name, topic_id=topic.topic_id if topic is not None else bytes(16))

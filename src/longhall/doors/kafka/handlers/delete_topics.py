"""DeleteTopics: delete topics with everything in them."""

from __future__ import annotations

from longhall.doors.kafka import topic_operations
from longhall.doors.kafka.connection import Call
from longhall.doors.kafka.door import Door
from longhall.doors.kafka.duplicates import once_and_more
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
        wanted = [(name, NO_ID) for name in request.topic_names]
    else:
        wanted = [(topic.name or "", topic.topic_id) for topic in request.topics]
    ambiguous = {(name, topic_id) for name, topic_id in wanted if bool(name) == (topic_id != NO_ID)}
    responses = [_ambiguous(name, topic_id) for name, topic_id in wanted if (name, topic_id) in ambiguous]
    wanted = [topic for topic in wanted if topic not in ambiguous]
    once, more = once_and_more(wanted)
    responses += [_duplicate(name, topic_id) for name, topic_id in more]
    responses += [await _delete(door, *topic) for topic in wanted if topic in once]
    return DeleteTopicsResponse(responses=responses)


def _ambiguous(name: str, topic_id: bytes) -> DeleteTopicsResponseTopic:
    """A topic is named either by its name or by its id."""
    said = "You may not specify both topic name and topic id." if name else "Neither topic name nor id were specified."
    code = error_of(Code.INVALID_REQUEST)
    return DeleteTopicsResponseTopic(name=name or None, topic_id=topic_id, error_code=code, error_message=said)


def _duplicate(name: str, topic_id: bytes) -> DeleteTopicsResponseTopic:
    said = "Duplicate topic name." if name else "Duplicate topic id."
    code = error_of(Code.INVALID_REQUEST)
    return DeleteTopicsResponseTopic(name=name or None, topic_id=topic_id, error_code=code, error_message=said)


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

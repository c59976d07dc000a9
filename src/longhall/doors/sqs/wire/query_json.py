"""Responses of the Query protocol to a client that accepts `application/json`.

    {"SendMessageResponse": {"SendMessageResult": {members}, "ResponseMetadata": {"RequestId": ...}}}

Members have the names of the JSON protocol, but two begin with a small letter; maps are lists of names and values.
"""

from __future__ import annotations

from typing import Final

import msgspec

from longhall.doors.sqs.wire.faults import SqsError
from longhall.doors.sqs.wire.results import Nothing, Result
from longhall.doors.sqs.wire.xml import query_message

CONTENT_TYPE: Final = "application/json"

_NAMES: Final = {"Messages": "messages", "QueueUrls": "queueUrls"}
_MAPS: Final = {"Attributes": "Name", "MessageAttributes": "Name", "Tags": "Key"}


def encode_result(action: str, result: Result, request_id: str) -> bytes:
    """A complete response."""
    response: dict[str, object] = {}
    if not isinstance(result, Nothing):
        response[f"{action}Result"] = _members(msgspec.to_builtins(result))
    response["ResponseMetadata"] = {"RequestId": request_id}
    return msgspec.json.encode({f"{action}Response": response})


def encode_error(error: SqsError, request_id: str) -> bytes:
    """A complete error response."""
    fault = error.fault
    said = {"Code": fault.code, "Message": query_message(error), "Type": fault.type, "Detail": None}
    return msgspec.json.encode({"Error": said, "RequestId": request_id})


def _members(members: dict[str, object]) -> dict[str, object]:
    out: dict[str, object] = {}
    for name, value in members.items():
        if name in _MAPS and isinstance(value, dict):
            value = [{_MAPS[name]: key, "Value": one} for key, one in value.items()]
        elif isinstance(value, list):
            value = [_members(one) if isinstance(one, dict) else one for one in value]
        out[_NAMES.get(name, name)] = value
    return out

"""Refusals that are derived from the schemas: every topic, partition, group or transaction of a request gets one error.

A refusal has the shape of its request. For one version of one API two rules make it:

1. A structure with an error code carries the error, and everything below it stays empty.
2. A structure without one has one array. Its elements answer those of the request's only array, one by one, and repeat
   the fields that identify an element (KEYS).

All other fields keep the defaults of the schema. Two APIs need a few lines of their own (_SPECIAL). This module knows
messages; it does not know when a node refuses.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any, Final, final

from longhall.doors.kafka.wire.apis import Api
from longhall.doors.kafka.wire.messages.commits import OffsetFetchRequest, OffsetFetchResponse
from longhall.doors.kafka.wire.messages.groups import JoinGroupRequest, JoinGroupResponse
from longhall.doors.kafka.wire.schema import Message, Spec, within

# The fields that identify an element; others have the same name in a request and its response and differ in meaning.
KEYS: Final = frozenset(
    {"name", "topic", "topic_id", "partition", "partition_index", "group_id", "transactional_id", "producer_id"}
)
NULL_PROTOCOL_FROM: Final = 7  # Of JoinGroup.
PARTITION_ERRORS_TO: Final = 7  # Of OffsetFetch.


def refuse(api: Api, request: Message, version: int, error_code: int) -> Message:
    """The response that says of everything in the request that it failed with this error."""
    special = _SPECIAL.get(api.request)
    if special is not None:
        return special(request, version, error_code)
    return _shape(api.request, api.response, version).fill(request, error_code)


def _refuse_join_group(request: JoinGroupRequest, version: int, error_code: int) -> Message:
    """A refused member stays the member that it is, and has no protocol."""
    protocol_name = None if version >= NULL_PROTOCOL_FROM else ""
    return JoinGroupResponse(error_code=error_code, protocol_name=protocol_name, member_id=request.member_id)


def _refuse_offset_fetch(request: OffsetFetchRequest, version: int, error_code: int) -> Message:
    """Up to version 7 clients look for the error at each partition, from version 2 on also in the response itself."""
    if version > PARTITION_ERRORS_TO:
        return _shape(OffsetFetchRequest, OffsetFetchResponse, version).fill(request, error_code)
    response = _shape(OffsetFetchRequest, OffsetFetchResponse, 1).fill(request, error_code)
    assert isinstance(response, OffsetFetchResponse)
    response.error_code = error_code
    return response


_SPECIAL: Final[dict[type[Message], Callable[[Any, int, int], Message]]] = {
    JoinGroupRequest: _refuse_join_group,
    OffsetFetchRequest: _refuse_offset_fetch,
}


@final
class _Shape:
    """How one structure of a response follows from its counterpart in the request; without `error_field` it has rows.

    `keys` are repeated from the request. A counterpart that is a plain value is the first of them.
    """

    def __init__(self, response: type[Message], keys: list[str], error_field: str) -> None:
        self.response = response
        self.keys = keys
        self.error_field = error_field
        self.rows_field = ""
        self.request_rows_field = ""
        self.row: _Shape | None = None

    def fill(self, source: Any, error_code: int) -> Message:
        if isinstance(source, Message):
            values: dict[str, Any] = {key: getattr(source, key) for key in self.keys}
        else:
            values = {self.keys[0]: source}
        if self.row is None:
            values[self.error_field] = error_code
        else:
            rows = getattr(source, self.request_rows_field) or ()
            values[self.rows_field] = [self.row.fill(row, error_code) for row in rows]
        return self.response(**values)


@cache
def _shape(request: type[Message] | str, response: type[Message], version: int, is_row: bool = False) -> _Shape:
    answered = _fields(response, version)
    asked = _fields(request, version) if not isinstance(request, str) else None
    keys = [name for name in answered if is_row and name in KEYS and (asked is None or name in asked)]
    error_field = next((name for name in answered if name.endswith("error_code")), "")
    shape = _Shape(response, keys, error_field)
    if not error_field:
        assert asked is not None, f"{response.__name__} {version} has neither an error nor rows"
        (shape.rows_field,) = (name for name, spec in answered.items() if spec.kind == "array")
        (shape.request_rows_field,) = (name for name, spec in asked.items() if spec.kind == "array")
        rows, request_rows = answered[shape.rows_field].of, asked[shape.request_rows_field].of
        shape.row = _shape(request_rows, rows, version, is_row=True)
    return shape


def _fields(message: type[Message], version: int) -> dict[str, Spec]:
    return {name: spec for name, spec in message.TABLE.items() if within(spec.versions, version)}

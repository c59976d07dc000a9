"""DeleteGroups: delete groups without members."""

from __future__ import annotations

from longhall.doors.kafka.connection import Call
from longhall.doors.kafka.door import Door
from longhall.doors.kafka.errors import error_of
from longhall.doors.kafka.wire.messages.group_admin import (
    DeleteGroupsRequest,
    DeleteGroupsResponse,
    DeleteGroupsResponseGroup,
)
from longhall.errors import Code


async def handle(door: Door, request: DeleteGroupsRequest, call: Call) -> DeleteGroupsResponse:
    results: list[DeleteGroupsResponseGroup] = []
    for name in dict.fromkeys(request.groups_names):
        code: Code | None = Code.GROUP_UNKNOWN
        if not door.share_groups.is_remembered(name):
            code = await door.coordinator.delete_group(name)
        if code is Code.GROUP_UNKNOWN:
            code = await door.share_groups.delete_group(name)
        results.append(DeleteGroupsResponseGroup(group_id=name, error_code=error_of(code)))
    return DeleteGroupsResponse(results=results)

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


async def handle(door: Door, request: DeleteGroupsRequest, call: Call) -> DeleteGroupsResponse:
    results: list[DeleteGroupsResponseGroup] = []
    for name in request.groups_names:
        if door.share_groups.find(name) is not None:
            code = await door.share_groups.delete_group(name)
        else:
            code = await door.coordinator.delete_group(name)
        results.append(DeleteGroupsResponseGroup(group_id=name, error_code=error_of(code)))
    return DeleteGroupsResponse(results=results)

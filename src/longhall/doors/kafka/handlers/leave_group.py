"""LeaveGroup: members leave at once, before their session times out."""

from __future__ import annotations

from longhall.doors.kafka.connection import Call
from longhall.doors.kafka.door import Door
from longhall.doors.kafka.errors import error_of
from longhall.doors.kafka.wire.messages.groups import LeaveGroupRequest, LeaveGroupResponse, LeaveGroupResponseMember

MANY_FROM = 3


async def handle(door: Door, request: LeaveGroupRequest, call: Call) -> LeaveGroupResponse:
    if call.header.version < MANY_FROM:
        members: tuple[tuple[str, str | None], ...] = ((request.member_id, None),)
    else:
        members = tuple((member.member_id, member.group_instance_id) for member in request.members)
    result = await door.coordinator.leave(request.group_id, members)
    if call.header.version < MANY_FROM:
        code = result.code if result.code is not None else result.members[0][2]
        return LeaveGroupResponse(error_code=error_of(code))
    return LeaveGroupResponse(
        error_code=error_of(result.code),
        members=[
            LeaveGroupResponseMember(member_id=member_id, group_instance_id=instance_id, error_code=error_of(code))
            for member_id, instance_id, code in result.members
        ],
    )

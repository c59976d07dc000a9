"""SyncGroup: the leader of a group sends the assignments, and each member gets its own."""

from __future__ import annotations

from longhall.doors.kafka.connection import Call
from longhall.doors.kafka.door import Door
from longhall.doors.kafka.errors import error_of
from longhall.doors.kafka.wire.messages.groups import SyncGroupRequest, SyncGroupResponse
from longhall.errors import Code
from longhall.topics.effects import SyncRequest

PROTOCOL_FROM = 5


async def handle(door: Door, request: SyncGroupRequest, call: Call) -> SyncGroupResponse:
    if call.header.version >= PROTOCOL_FROM and (request.protocol_type is None or request.protocol_name is None):
        return SyncGroupResponse(error_code=error_of(Code.INCONSISTENT_PROTOCOL))
    result = await door.coordinator.sync(
        SyncRequest(
            group_id=request.group_id,
            member_id=request.member_id,
            generation=request.generation_id,
            instance_id=request.group_instance_id,
            protocol_type=request.protocol_type,
            protocol=request.protocol_name,
            assignments=tuple((part.member_id, part.assignment) for part in request.assignments),
        )
    )
    return SyncGroupResponse(
        error_code=error_of(result.code),
        protocol_type=result.protocol_type,
        protocol_name=result.protocol,
        assignment=result.assignment,
    )

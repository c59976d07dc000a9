"""JoinGroup: a member joins the next generation of its group."""

from __future__ import annotations

from longhall.doors.kafka.connection import Call
from longhall.doors.kafka.door import Door
from longhall.doors.kafka.errors import error_of
from longhall.doors.kafka.wire.messages.groups import JoinGroupRequest, JoinGroupResponse, JoinGroupResponseMember
from longhall.errors import Code
from longhall.topics.effects import JoinRequest

KNOWN_MEMBER_FROM = 4
NULL_PROTOCOL_FROM = 7
SKIPS_ASSIGNMENT_FROM = 9


async def handle(door: Door, request: JoinGroupRequest, call: Call) -> JoinGroupResponse:
    version = call.header.version
    if door.share_groups.has_members(request.group_id):
        return JoinGroupResponse(
            error_code=error_of(Code.INCONSISTENT_PROTOCOL),
            protocol_name="" if version < NULL_PROTOCOL_FROM else None,
            member_id=request.member_id,
        )
    client_id = call.header.client_id or ""
    fresh = f"{request.group_instance_id or client_id or 'member'}-{door.hall.world.entropy.bytes(16).hex()}"
    result = await door.coordinator.join(
        JoinRequest(
            group_id=request.group_id,
            member_id=request.member_id,
            instance_id=request.group_instance_id,
            client_id=client_id,
            client_host=f"/{call.peer}",
            session_timeout_ms=request.session_timeout_ms,
            rebalance_timeout_ms=request.rebalance_timeout_ms,
            protocol_type=request.protocol_type,
            protocols=tuple((protocol.name, protocol.metadata) for protocol in request.protocols),
            fresh_member_id=fresh,
            requires_known_member=version >= KNOWN_MEMBER_FROM,
            supports_skipping_assignment=version >= SKIPS_ASSIGNMENT_FROM,
        )
    )
    return JoinGroupResponse(
        error_code=error_of(result.code),
        generation_id=result.generation,
        protocol_type=result.protocol_type,
        protocol_name=result.protocol or ("" if version < NULL_PROTOCOL_FROM else None),
        leader=result.leader,
        skip_assignment=result.skip_assignment,
        member_id=result.member_id,
        members=[
            JoinGroupResponseMember(member_id=member_id, group_instance_id=instance_id, metadata=metadata)
            for member_id, instance_id, metadata in result.members
        ],
    )

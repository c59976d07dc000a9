"""DescribeGroups: state, members and assignments."""

from __future__ import annotations

from longhall.directory.access_rules import Kind
from longhall.doors.kafka.authorized_operations import operations_of
from longhall.doors.kafka.connection import Call
from longhall.doors.kafka.door import Door
from longhall.doors.kafka.errors import error_of
from longhall.doors.kafka.wire.messages.group_admin import (
    DescribeGroupsRequest,
    DescribeGroupsResponse,
    DescribeGroupsResponseGroup,
    DescribeGroupsResponseMember,
)
from longhall.errors import Code

HAS_UNKNOWN_FROM = 6
DEAD = "Dead"


def handle(door: Door, request: DescribeGroupsRequest, call: Call) -> DescribeGroupsResponse:
    response = DescribeGroupsResponse(groups=[_describe(door, name, call.header.version) for name in request.groups])
    if request.include_authorized_operations:
        for group in response.groups:
            group.authorized_operations = operations_of(door.access, call.caller, Kind.GROUP, group.group_id)
    return response


def _describe(door: Door, name: str, version: int) -> DescribeGroupsResponseGroup:
    group = door.coordinator.describe_group(name)
    if group is None:
        if version >= HAS_UNKNOWN_FROM:
            is_other = door.coordinator.describe_consumer_group(name) is not None
            return DescribeGroupsResponseGroup(
                group_id=name,
                group_state=DEAD,
                error_code=error_of(Code.GROUP_UNKNOWN),
                error_message=f"Group {name} is not a classic group." if is_other else f"Group {name} not found.",
            )
        return DescribeGroupsResponseGroup(group_id=name, group_state=DEAD)
    return DescribeGroupsResponseGroup(
        group_id=name,
        group_state=group.state,
        protocol_type=group.protocol_type,
        protocol_data=group.protocol,
        members=[
            DescribeGroupsResponseMember(
                member_id=member.member_id,
                group_instance_id=member.instance_id,
                client_id=member.client_id,
                client_host=member.client_host,
                member_metadata=member.metadata,
                member_assignment=member.assignment,
            )
            for member in group.members
        ],
    )

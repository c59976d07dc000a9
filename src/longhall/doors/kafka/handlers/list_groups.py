"""ListGroups: all groups, or those of some states or types."""

from __future__ import annotations

from longhall.doors.kafka.connection import Call
from longhall.doors.kafka.door import Door
from longhall.doors.kafka.wire.messages.group_admin import (
    ListGroupsRequest,
    ListGroupsResponse,
    ListGroupsResponseGroup,
)


def handle(door: Door, request: ListGroupsRequest, call: Call) -> ListGroupsResponse:
    return ListGroupsResponse(
        groups=[
            ListGroupsResponseGroup(
                group_id=line.group_id,
                protocol_type=line.protocol_type,
                group_state=line.state,
                group_type=line.kind,
            )
            for line in (
                *door.coordinator.list_groups(request.states_filter, request.types_filter),
                *door.share_groups.list_groups(request.states_filter, request.types_filter),
            )
        ]
    )

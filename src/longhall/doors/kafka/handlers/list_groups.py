"""ListGroups: all groups, or those of some states or types.

Clients ask every broker. The hall has all groups; the process of another replication group has cursors of share groups,
which the hall lists, and so it has no rows of its own.
"""

from __future__ import annotations

from longhall.doors.kafka.connection import Call
from longhall.doors.kafka.door import Door
from longhall.doors.kafka.wire.messages.group_admin import (
    ListGroupsRequest,
    ListGroupsResponse,
    ListGroupsResponseGroup,
)


async def handle(door: Door, request: ListGroupsRequest, call: Call) -> ListGroupsResponse:
    if door.main is not None:
        return ListGroupsResponse(groups=[])
    shared = await door.share_groups.list_groups(request.states_filter, request.types_filter)
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
                *shared,
            )
        ]
    )

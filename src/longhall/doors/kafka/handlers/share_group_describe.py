"""ShareGroupDescribe: state, members and assignments of share groups."""

from __future__ import annotations

from longhall.directory.access_rules import Kind
from longhall.doors.kafka.authorized_operations import operations_of
from longhall.doors.kafka.connection import Call
from longhall.doors.kafka.door import Door
from longhall.doors.kafka.errors import error_of
from longhall.doors.kafka.wire.messages.group_assignments import DescribedAssignment, DescribedTopic
from longhall.doors.kafka.wire.messages.share_groups import (
    ShareGroupDescribeRequest,
    ShareGroupDescribeResponse,
    ShareGroupDescribeResponseGroup,
    ShareGroupDescribeResponseMember,
)
from longhall.errors import Code
from longhall.topics.share_groups import ASSIGNOR, ShareMember

DEAD = "Dead"


def handle(door: Door, request: ShareGroupDescribeRequest, call: Call) -> ShareGroupDescribeResponse:
    groups = [_describe(door, group_id) for group_id in request.group_ids]
    if request.include_authorized_operations:
        for group in groups:
            group.authorized_operations = operations_of(door.access, call.caller, Kind.GROUP, group.group_id)
    return ShareGroupDescribeResponse(groups=groups)


def _describe(door: Door, group_id: str) -> ShareGroupDescribeResponseGroup:
    group = door.share_groups.find(group_id) if group_id else None
    if group is None:
        return ShareGroupDescribeResponseGroup(
            error_code=error_of(Code.GROUP_UNKNOWN if group_id else Code.INVALID_GROUP_ID),
            error_message=f"Group {group_id} not found." if group_id else "The group has no id.",
            group_id=group_id,
            group_state=DEAD,
        )
    return ShareGroupDescribeResponseGroup(
        group_id=group_id,
        group_state=group.state,
        group_epoch=group.epoch,
        assignment_epoch=group.epoch,
        assignor_name=ASSIGNOR,
        members=[_member(member) for member in group.members.values()],
    )


def _member(member: ShareMember) -> ShareGroupDescribeResponseMember:
    return ShareGroupDescribeResponseMember(
        member_id=member.member_id,
        rack_id=member.rack_id,
        member_epoch=member.epoch,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=list(member.topics),
        assignment=DescribedAssignment(
            topic_partitions=[
                DescribedTopic(topic_id=topic_id, topic_name=name, partitions=list(range(count)))
                for topic_id, name, count in member.assigned
            ]
        ),
    )

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
from longhall.errors import Code, LonghallError
from longhall.topics.share_groups import ASSIGNOR, ShareMember


async def handle(door: Door, request: ShareGroupDescribeRequest, call: Call) -> ShareGroupDescribeResponse:
    groups = [await _describe(door, group_id) for group_id in request.group_ids]
    if request.include_authorized_operations:
        for group in groups:
            group.authorized_operations = operations_of(door.access, call.caller, Kind.GROUP, group.group_id)
    return ShareGroupDescribeResponse(groups=groups)


async def _describe(door: Door, group_id: str) -> ShareGroupDescribeResponseGroup:
    if not group_id:
        return _unknown(group_id, Code.INVALID_GROUP_ID, "The group has no id.")
    try:
        group = await door.share_groups.find(group_id)
    except LonghallError as error:
        return _unknown(group_id, error.code, str(error))
    if group is None:
        return _unknown(group_id, Code.GROUP_UNKNOWN, f"Group {group_id} not found.")
    return ShareGroupDescribeResponseGroup(
        group_id=group_id,
        group_state=group.state,
        group_epoch=group.epoch,
        assignment_epoch=group.epoch,
        assignor_name=ASSIGNOR,
        members=[_member(member) for member in group.members.values()],
    )


def _unknown(group_id: str, code: Code, message: str) -> ShareGroupDescribeResponseGroup:
    return ShareGroupDescribeResponseGroup(error_code=error_of(code), error_message=message, group_id=group_id)


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

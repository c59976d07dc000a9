"""ConsumerGroupDescribe: groups with server-side assignment, their epochs, members and assignments."""

from __future__ import annotations

from longhall.directory.access_rules import Kind
from longhall.doors.kafka.authorized_operations import operations_of
from longhall.doors.kafka.connection import Call
from longhall.doors.kafka.door import Door
from longhall.doors.kafka.errors import error_of
from longhall.doors.kafka.wire.messages.consumer_groups import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
    ConsumerGroupDescribeResponseGroup,
    ConsumerGroupDescribeResponseMember,
)
from longhall.doors.kafka.wire.messages.group_assignments import DescribedAssignment, DescribedTopic
from longhall.errors import Code
from longhall.topics.assignment import Assigned
from longhall.topics.views import ConsumerMemberDescription

CLASSIC_MEMBER = 0
CONSUMER_MEMBER = 1


def handle(door: Door, request: ConsumerGroupDescribeRequest, call: Call) -> ConsumerGroupDescribeResponse:
    groups = [_describe(door, name) for name in request.group_ids]
    if request.include_authorized_operations:
        for group in groups:
            group.authorized_operations = operations_of(door.access, call.caller, Kind.GROUP, group.group_id)
    return ConsumerGroupDescribeResponse(groups=groups)


def _describe(door: Door, name: str) -> ConsumerGroupDescribeResponseGroup:
    if not name:
        return ConsumerGroupDescribeResponseGroup(error_code=error_of(Code.INVALID_GROUP_ID))
    group = door.coordinator.describe_consumer_group(name)
    if group is None:
        known = door.coordinator.describe_group(name) is not None
        reason = f"Group {name} is not a consumer group." if known else f"Group {name} not found."
        return ConsumerGroupDescribeResponseGroup(
            group_id=name, error_code=error_of(Code.GROUP_UNKNOWN), error_message=reason
        )
    return ConsumerGroupDescribeResponseGroup(
        group_id=name,
        group_state=group.state,
        group_epoch=group.epoch,
        assignment_epoch=group.assignment_epoch,
        assignor_name=group.assignor,
        members=[_member(door, member) for member in group.members],
    )


def _member(door: Door, described: ConsumerMemberDescription) -> ConsumerGroupDescribeResponseMember:
    member = described.member
    return ConsumerGroupDescribeResponseMember(
        member_id=member.member_id,
        instance_id=member.instance_id,
        rack_id=member.rack_id,
        member_epoch=member.epoch,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=list(member.topics),
        subscribed_topic_regex=member.pattern or None,
        assignment=_assignment(door, member.assigned),
        target_assignment=_assignment(door, described.target),
        member_type=CONSUMER_MEMBER if member.classic is None else CLASSIC_MEMBER,
    )


def _assignment(door: Door, rows: Assigned) -> DescribedAssignment:
    """Deleted topics have no name and are left out."""
    named = [(topic_id, door.hall.topic_name(topic_id), partitions) for topic_id, partitions in rows]
    return DescribedAssignment(
        topic_partitions=[
            DescribedTopic(topic_id=topic_id, topic_name=name, partitions=list(partitions))
            for topic_id, name, partitions in named
            if name
        ]
    )

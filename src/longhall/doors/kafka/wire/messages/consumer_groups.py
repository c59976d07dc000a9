"""Consumer groups with server-side assignment (KIP-848)."""

from __future__ import annotations

from longhall.doors.kafka.wire.messages.group_assignments import (
    DescribedAssignment,
    HeartbeatAssignment,
    HeartbeatTopic,
)
from longhall.doors.kafka.wire.schema import Message, array, boolean, int8, int16, int32, string, structure


class ConsumerGroupHeartbeatRequest(Message, flexible=0):
    """A member joins with epoch 0, stays, or leaves with -1 or -2. What is null has not changed."""

    group_id: str = string("0+")
    member_id: str = string("0+")
    member_epoch: int = int32("0+")
    instance_id: str | None = string("0+", null="0+", default=None)
    rack_id: str | None = string("0+", null="0+", default=None)
    rebalance_timeout_ms: int = int32("0+", default=-1)
    subscribed_topic_names: list[str] | None = array("0+", "string", null="0+")
    subscribed_topic_regex: str | None = string("1+", null="1+", default=None)
    server_assignor: str | None = string("0+", null="0+", default=None)
    topic_partitions: list[HeartbeatTopic] | None = array("0+", HeartbeatTopic, null="0+")


class ConsumerGroupHeartbeatResponse(Message, flexible=0):
    """The member's epoch, and its assignment if that has changed."""

    throttle_time_ms: int = int32("0+")
    error_code: int = int16("0+")
    error_message: str | None = string("0+", null="0+", default=None)
    member_id: str | None = string("0+", null="0+", default=None)
    member_epoch: int = int32("0+")
    heartbeat_interval_ms: int = int32("0+")
    assignment: HeartbeatAssignment | None = structure("0+", HeartbeatAssignment, null="0+")


class ConsumerGroupDescribeRequest(Message, flexible=0):
    """Asks for groups by name."""

    group_ids: list[str] = array("0+", "string")
    include_authorized_operations: bool = boolean("0+")


class ConsumerGroupDescribeResponseMember(Message):
    member_id: str = string("0+")
    instance_id: str | None = string("0+", null="0+", default=None)
    rack_id: str | None = string("0+", null="0+", default=None)
    member_epoch: int = int32("0+")
    client_id: str = string("0+")
    client_host: str = string("0+")
    subscribed_topic_names: list[str] = array("0+", "string")
    subscribed_topic_regex: str | None = string("0+", null="0+", default=None)
    assignment: DescribedAssignment = structure("0+", DescribedAssignment)
    target_assignment: DescribedAssignment = structure("0+", DescribedAssignment)
    member_type: int = int8("1+", default=-1)


class ConsumerGroupDescribeResponseGroup(Message):
    error_code: int = int16("0+")
    error_message: str | None = string("0+", null="0+", default=None)
    group_id: str = string("0+")
    group_state: str = string("0+")
    group_epoch: int = int32("0+")
    assignment_epoch: int = int32("0+")
    assignor_name: str = string("0+")
    members: list[ConsumerGroupDescribeResponseMember] = array("0+", ConsumerGroupDescribeResponseMember)
    authorized_operations: int = int32("0+", default=-2147483648)


class ConsumerGroupDescribeResponse(Message, flexible=0):
    """States, epochs, members, and both what they have and what they should have."""

    throttle_time_ms: int = int32("0+")
    groups: list[ConsumerGroupDescribeResponseGroup] = array("0+", ConsumerGroupDescribeResponseGroup)

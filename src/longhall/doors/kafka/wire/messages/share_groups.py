"""Members of share groups (KIP-932): heartbeats and descriptions."""

from __future__ import annotations

from longhall.doors.kafka.wire.messages.group_assignments import DescribedAssignment, HeartbeatAssignment
from longhall.doors.kafka.wire.schema import Message, array, boolean, int16, int32, string, structure


class ShareGroupHeartbeatRequest(Message, flexible=0):
    """A member joins with epoch 0, stays with the epoch of the last response, and leaves with -1."""

    group_id: str = string("0+")
    member_id: str = string("0+")
    member_epoch: int = int32("0+")
    rack_id: str | None = string("0+", null="0+", default=None)
    subscribed_topic_names: list[str] | None = array("0+", "string", null="0+", default=None)


class ShareGroupHeartbeatResponse(Message, flexible=0):
    """The epoch of the member, and its assignment where it is new."""

    throttle_time_ms: int = int32("0+")
    error_code: int = int16("0+")
    error_message: str | None = string("0+", null="0+", default=None)
    member_id: str | None = string("0+", null="0+", default=None)
    member_epoch: int = int32("0+")
    heartbeat_interval_ms: int = int32("0+")
    assignment: HeartbeatAssignment | None = structure("0+", HeartbeatAssignment, null="0+")


class ShareGroupDescribeRequest(Message, flexible=0):
    """Asks for share groups by name."""

    group_ids: list[str] = array("0+", "string")
    include_authorized_operations: bool = boolean("0+")


class ShareGroupDescribeResponseMember(Message):
    member_id: str = string("0+")
    rack_id: str | None = string("0+", null="0+", default=None)
    member_epoch: int = int32("0+")
    client_id: str = string("0+")
    client_host: str = string("0+")
    subscribed_topic_names: list[str] = array("0+", "string")
    assignment: DescribedAssignment = structure("0+", DescribedAssignment)


class ShareGroupDescribeResponseGroup(Message):
    error_code: int = int16("0+")
    error_message: str | None = string("0+", null="0+", default=None)
    group_id: str = string("0+")
    group_state: str = string("0+")
    group_epoch: int = int32("0+")
    assignment_epoch: int = int32("0+")
    assignor_name: str = string("0+")
    members: list[ShareGroupDescribeResponseMember] = array("0+", ShareGroupDescribeResponseMember)
    authorized_operations: int = int32("0+", default=-2147483648)


class ShareGroupDescribeResponse(Message, flexible=0):
    """States, members and their assignments."""

    throttle_time_ms: int = int32("0+")
    groups: list[ShareGroupDescribeResponseGroup] = array("0+", ShareGroupDescribeResponseGroup)

"""Members of share groups (KIP-932): heartbeats and descriptions."""

from __future__ import annotations

from longhall.doors.kafka.wire.schema import Message, array, boolean, int16, int32, string, structure, uuid


class ShareGroupHeartbeatRequest(Message, flexible=0):
    """A member joins with epoch 0, stays with the epoch that it was told, and leaves with -1."""

    group_id: str = string("0+")
    member_id: str = string("0+")
    member_epoch: int = int32("0+")
    rack_id: str | None = string("0+", null="0+", default=None)
    subscribed_topic_names: list[str] | None = array("0+", "string", null="0+", default=None)


class ShareGroupHeartbeatResponseTopic(Message):
    topic_id: bytes = uuid("0+")
    partitions: list[int] = array("0+", "int32")


class ShareGroupHeartbeatResponseAssignment(Message):
    topic_partitions: list[ShareGroupHeartbeatResponseTopic] = array("0+", ShareGroupHeartbeatResponseTopic)


class ShareGroupHeartbeatResponse(Message, flexible=0):
    """The epoch of the member, and its assignment where it is new."""

    throttle_time_ms: int = int32("0+")
    error_code: int = int16("0+")
    error_message: str | None = string("0+", null="0+", default=None)
    member_id: str | None = string("0+", null="0+", default=None)
    member_epoch: int = int32("0+")
    heartbeat_interval_ms: int = int32("0+")
    assignment: ShareGroupHeartbeatResponseAssignment | None = structure(
        "0+", ShareGroupHeartbeatResponseAssignment, null="0+"
    )


class ShareGroupDescribeRequest(Message, flexible=0):
    """Asks for share groups by name."""

    group_ids: list[str] = array("0+", "string")
    include_authorized_operations: bool = boolean("0+")


class ShareGroupDescribeResponseTopic(Message):
    topic_id: bytes = uuid("0+")
    topic_name: str = string("0+")
    partitions: list[int] = array("0+", "int32")


class ShareGroupDescribeResponseAssignment(Message):
    topic_partitions: list[ShareGroupDescribeResponseTopic] = array("0+", ShareGroupDescribeResponseTopic)


class ShareGroupDescribeResponseMember(Message):
    member_id: str = string("0+")
    rack_id: str | None = string("0+", null="0+", default=None)
    member_epoch: int = int32("0+")
    client_id: str = string("0+")
    client_host: str = string("0+")
    subscribed_topic_names: list[str] = array("0+", "string")
    assignment: ShareGroupDescribeResponseAssignment = structure("0+", ShareGroupDescribeResponseAssignment)


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

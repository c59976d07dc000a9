"""The life of a member: join, sync, heartbeat, leave."""

from __future__ import annotations

from longhall.doors.kafka.wire.schema import Message, array, boolean, data, int16, int32, string


class JoinGroupRequestProtocol(Message):
    name: str = string("0+")
    metadata: bytes = data("0+")


class JoinGroupRequest(Message, flexible=6):
    """The first of two steps into a generation. Metadata is opaque to the server."""

    group_id: str = string("0+")
    session_timeout_ms: int = int32("0+")
    rebalance_timeout_ms: int = int32("1+", default=-1)
    member_id: str = string("0+")
    group_instance_id: str | None = string("5+", null="5+", default=None)
    protocol_type: str = string("0+")
    protocols: list[JoinGroupRequestProtocol] = array("0+", JoinGroupRequestProtocol)
    reason: str | None = string("8+", null="8+", default=None)


class JoinGroupResponseMember(Message):
    member_id: str = string("0+")
    group_instance_id: str | None = string("5+", null="5+", default=None)
    metadata: bytes = data("0+")


class JoinGroupResponse(Message, flexible=6):
    """Members are listed for the leader of the group alone, which assigns partitions."""

    throttle_time_ms: int = int32("2+")
    error_code: int = int16("0+")
    generation_id: int = int32("0+", default=-1)
    protocol_type: str | None = string("7+", null="7+", default=None)
    protocol_name: str | None = string("0+", null="7+")
    leader: str = string("0+")
    skip_assignment: bool = boolean("9+")
    member_id: str = string("0+")
    members: list[JoinGroupResponseMember] = array("0+", JoinGroupResponseMember)


class SyncGroupRequestAssignment(Message):
    member_id: str = string("0+")
    assignment: bytes = data("0+")


class SyncGroupRequest(Message, flexible=4):
    """The second step: the leader sends the assignments, the others ask for theirs."""

    group_id: str = string("0+")
    generation_id: int = int32("0+")
    member_id: str = string("0+")
    group_instance_id: str | None = string("3+", null="3+", default=None)
    protocol_type: str | None = string("5+", null="5+", default=None)
    protocol_name: str | None = string("5+", null="5+", default=None)
    assignments: list[SyncGroupRequestAssignment] = array("0+", SyncGroupRequestAssignment)


class SyncGroupResponse(Message, flexible=4):
    """The member's own assignment, opaque to the server."""

    throttle_time_ms: int = int32("1+")
    error_code: int = int16("0+")
    protocol_type: str | None = string("5+", null="5+", default=None)
    protocol_name: str | None = string("5+", null="5+", default=None)
    assignment: bytes = data("0+")


class HeartbeatRequest(Message, flexible=4):
    """A member keeps its session."""

    group_id: str = string("0+")
    generation_id: int = int32("0+")
    member_id: str = string("0+")
    group_instance_id: str | None = string("3+", null="3+", default=None)


class HeartbeatResponse(Message, flexible=4):
    """Error 27 tells the member to join again."""

    throttle_time_ms: int = int32("1+")
    error_code: int = int16("0+")


class LeaveGroupRequestMember(Message):
    member_id: str = string("3+")
    group_instance_id: str | None = string("3+", null="3+", default=None)
    reason: str | None = string("5+", null="5+", default=None)


class LeaveGroupRequest(Message, flexible=4):
    """One member in the message itself up to version 2, a list from version 3."""

    group_id: str = string("0+")
    member_id: str = string("0-2")
    members: list[LeaveGroupRequestMember] = array("3+", LeaveGroupRequestMember)


class LeaveGroupResponseMember(Message):
    member_id: str = string("3+")
    group_instance_id: str | None = string("3+", null="3+")
    error_code: int = int16("3+")


class LeaveGroupResponse(Message, flexible=4):
    """One error a member."""

    throttle_time_ms: int = int32("1+")
    error_code: int = int16("0+")
    members: list[LeaveGroupResponseMember] = array("3+", LeaveGroupResponseMember)

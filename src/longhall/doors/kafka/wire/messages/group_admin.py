"""Groups, for administrators."""

from __future__ import annotations

from longhall.doors.kafka.wire.schema import Message, array, boolean, data, int16, int32, string


class DescribeGroupsRequest(Message, flexible=5):
    """Asks for groups by name."""

    groups: list[str] = array("0+", "string")
    include_authorized_operations: bool = boolean("3+")


class DescribeGroupsResponseMember(Message):
    member_id: str = string("0+")
    group_instance_id: str | None = string("4+", null="4+", default=None)
    client_id: str = string("0+")
    client_host: str = string("0+")
    member_metadata: bytes = data("0+")
    member_assignment: bytes = data("0+")


class DescribeGroupsResponseGroup(Message):
    error_code: int = int16("0+")
    error_message: str | None = string("6+", null="6+", default=None)
    group_id: str = string("0+")
    group_state: str = string("0+")
    protocol_type: str = string("0+")
    protocol_data: str = string("0+")
    members: list[DescribeGroupsResponseMember] = array("0+", DescribeGroupsResponseMember)
    authorized_operations: int = int32("3+", default=-2147483648)


class DescribeGroupsResponse(Message, flexible=5):
    """States, members and their assignments."""

    throttle_time_ms: int = int32("1+")
    groups: list[DescribeGroupsResponseGroup] = array("0+", DescribeGroupsResponseGroup)


class ListGroupsRequest(Message, flexible=3):
    """Empty filters mean all."""

    states_filter: list[str] = array("4+", "string")
    types_filter: list[str] = array("5+", "string")


class ListGroupsResponseGroup(Message):
    group_id: str = string("0+")
    protocol_type: str = string("0+")
    group_state: str = string("4+")
    group_type: str = string("5+")


class ListGroupsResponse(Message, flexible=3):
    """All groups of this coordinator."""

    throttle_time_ms: int = int32("1+")
    error_code: int = int16("0+")
    groups: list[ListGroupsResponseGroup] = array("0+", ListGroupsResponseGroup)


class DeleteGroupsRequest(Message, flexible=2):
    """Deletes groups without members."""

    groups_names: list[str] = array("0+", "string")


class DeleteGroupsResponseGroup(Message):
    group_id: str = string("0+")
    error_code: int = int16("0+")


class DeleteGroupsResponse(Message, flexible=2):
    """One error a group."""

    throttle_time_ms: int = int32("0+")
    results: list[DeleteGroupsResponseGroup] = array("0+", DeleteGroupsResponseGroup)

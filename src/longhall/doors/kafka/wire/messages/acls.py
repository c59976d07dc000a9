"""Access control lists: what Kafka's administrators call permissions."""

from __future__ import annotations

from longhall.doors.kafka.wire.schema import Message, array, int8, int16, int32, string

LITERAL = 3


class DescribeAclsRequest(Message, flexible=2):
    """A filter: null, or 1 for numbers, matches everything."""

    resource_type_filter: int = int8("0+")
    resource_name_filter: str | None = string("0+", null="0+", default=None)
    pattern_type_filter: int = int8("1+", default=LITERAL)
    principal_filter: str | None = string("0+", null="0+", default=None)
    host_filter: str | None = string("0+", null="0+", default=None)
    operation: int = int8("0+")
    permission_type: int = int8("0+")


class DescribeAclsResponseAcl(Message):
    principal: str = string("0+")
    host: str = string("0+")
    operation: int = int8("0+")
    permission_type: int = int8("0+")


class DescribeAclsResponseResource(Message):
    resource_type: int = int8("0+")
    resource_name: str = string("0+")
    pattern_type: int = int8("1+", default=LITERAL)
    acls: list[DescribeAclsResponseAcl] = array("0+", DescribeAclsResponseAcl)


class DescribeAclsResponse(Message, flexible=2):
    """The entries that match, by resource."""

    throttle_time_ms: int = int32("0+")
    error_code: int = int16("0+")
    error_message: str | None = string("0+", null="0+", default=None)
    resources: list[DescribeAclsResponseResource] = array("0+", DescribeAclsResponseResource)


class CreateAclsRequestCreation(Message):
    resource_type: int = int8("0+")
    resource_name: str = string("0+")
    resource_pattern_type: int = int8("1+", default=LITERAL)
    principal: str = string("0+")
    host: str = string("0+")
    operation: int = int8("0+")
    permission_type: int = int8("0+")


class CreateAclsRequest(Message, flexible=2):
    """Entries to add."""

    creations: list[CreateAclsRequestCreation] = array("0+", CreateAclsRequestCreation)


class CreateAclsResponseResult(Message):
    error_code: int = int16("0+")
    error_message: str | None = string("0+", null="0+", default=None)


class CreateAclsResponse(Message, flexible=2):
    """The result of each entry, in the order of the request."""

    throttle_time_ms: int = int32("0+")
    results: list[CreateAclsResponseResult] = array("0+", CreateAclsResponseResult)


class DeleteAclsRequestFilter(Message):
    resource_type_filter: int = int8("0+")
    resource_name_filter: str | None = string("0+", null="0+", default=None)
    pattern_type_filter: int = int8("1+", default=LITERAL)
    principal_filter: str | None = string("0+", null="0+", default=None)
    host_filter: str | None = string("0+", null="0+", default=None)
    operation: int = int8("0+")
    permission_type: int = int8("0+")


class DeleteAclsRequest(Message, flexible=2):
    """Filters of entries to delete."""

    filters: list[DeleteAclsRequestFilter] = array("0+", DeleteAclsRequestFilter)


class DeleteAclsResponseMatch(Message):
    error_code: int = int16("0+")
    error_message: str | None = string("0+", null="0+", default=None)
    resource_type: int = int8("0+")
    resource_name: str = string("0+")
    pattern_type: int = int8("1+", default=LITERAL)
    principal: str = string("0+")
    host: str = string("0+")
    operation: int = int8("0+")
    permission_type: int = int8("0+")


class DeleteAclsResponseFilter(Message):
    error_code: int = int16("0+")
    error_message: str | None = string("0+", null="0+", default=None)
    matching_acls: list[DeleteAclsResponseMatch] = array("0+", DeleteAclsResponseMatch)


class DeleteAclsResponse(Message, flexible=2):
    """What each filter has deleted, in the order of the request."""

    throttle_time_ms: int = int32("0+")
    filter_results: list[DeleteAclsResponseFilter] = array("0+", DeleteAclsResponseFilter)

"""DescribeAcls: the access rules that match a filter, as far as Kafka has words for them."""

from __future__ import annotations

from longhall.doors.kafka.acls import acls_of, matches
from longhall.doors.kafka.connection import Call
from longhall.doors.kafka.door import Door
from longhall.doors.kafka.errors import error_of
from longhall.doors.kafka.wire.messages.acls import (
    DescribeAclsRequest,
    DescribeAclsResponse,
    DescribeAclsResponseAcl,
    DescribeAclsResponseResource,
)
from longhall.errors import LonghallError
from longhall.service.access_operations import ListAccess


async def handle(door: Door, request: DescribeAclsRequest, call: Call) -> DescribeAclsResponse:
    try:
        view = await door.service.dispatch(ListAccess(), call.caller)
    except LonghallError as error:
        return DescribeAclsResponse(error_code=error_of(error.code), error_message=str(error))
    resources: dict[tuple[int, str, int], DescribeAclsResponseResource] = {}
    for acl in acls_of(view.rules):
        if not matches(acl, request):
            continue
        key = (acl.resource_type, acl.resource_name, acl.pattern_type)
        resource = resources.get(key)
        if resource is None:
            resource = resources[key] = DescribeAclsResponseResource(
                resource_type=acl.resource_type, resource_name=acl.resource_name, pattern_type=acl.pattern_type, acls=[]
            )
        resource.acls.append(
            DescribeAclsResponseAcl(
                principal=acl.principal,
                host=acl.host,
                operation=acl.operation,
                permission_type=acl.permission_type,
            )
        )
    return DescribeAclsResponse(resources=list(resources.values()))

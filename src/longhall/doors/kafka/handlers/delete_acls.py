"""DeleteAcls: remove the access rules that match filters."""

from __future__ import annotations

from longhall.doors.kafka.acls import Acl, acls_of, matches
from longhall.doors.kafka.connection import Call
from longhall.doors.kafka.door import Door
from longhall.doors.kafka.errors import error_of
from longhall.doors.kafka.wire.messages.acls import (
    DeleteAclsRequest,
    DeleteAclsResponse,
    DeleteAclsResponseFilter,
    DeleteAclsResponseMatch,
)
from longhall.errors import LonghallError
from longhall.service.access_operations import ChangeAccess, ListAccess


async def handle(door: Door, request: DeleteAclsRequest, call: Call) -> DeleteAclsResponse:
    try:
        view = await door.service.dispatch(ListAccess(), call.caller)
        acls = acls_of(view.rules)
        found = [[acl for acl in acls if matches(acl, wanted)] for wanted in request.filters]
        ids = list(dict.fromkeys(acl.rule_id for some in found for acl in some))
        if ids:
            await door.service.dispatch(ChangeAccess([], ids), call.caller)
    except LonghallError as error:
        refused = DeleteAclsResponseFilter(error_code=error_of(error.code), error_message=str(error))
        return DeleteAclsResponse(filter_results=[refused for _ in request.filters])
    results = [DeleteAclsResponseFilter(matching_acls=[_match(acl) for acl in some]) for some in found]
    return DeleteAclsResponse(filter_results=results)


def _match(acl: Acl) -> DeleteAclsResponseMatch:
    return DeleteAclsResponseMatch(
        resource_type=acl.resource_type,
        resource_name=acl.resource_name,
        pattern_type=acl.pattern_type,
        principal=acl.principal,
        host=acl.host,
        operation=acl.operation,
        permission_type=acl.permission_type,
    )

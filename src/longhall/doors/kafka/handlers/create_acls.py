"""CreateAcls: add access rules. Each entry has a result of its own; those that are valid are added together."""

from __future__ import annotations

from longhall.directory.access_rules import AccessRule
from longhall.doors.kafka.acls import rule_of
from longhall.doors.kafka.connection import Call
from longhall.doors.kafka.door import Door
from longhall.doors.kafka.errors import error_of
from longhall.doors.kafka.wire.messages.acls import CreateAclsRequest, CreateAclsResponse, CreateAclsResponseResult
from longhall.errors import LonghallError
from longhall.service.access_operations import ChangeAccess


async def handle(door: Door, request: CreateAclsRequest, call: Call) -> CreateAclsResponse:
    rules: list[AccessRule] = []
    results: list[CreateAclsResponseResult] = []
    for creation in request.creations:
        try:
            rules.append(rule_of(creation))
        except LonghallError as error:
            results.append(_refused(error))
        else:
            results.append(CreateAclsResponseResult())
    if rules:
        try:
            await door.service.dispatch(ChangeAccess(rules, []), call.caller)
        except LonghallError as error:
            results = [result if result.error_code else _refused(error) for result in results]
    return CreateAclsResponse(results=results)


def _refused(error: LonghallError) -> CreateAclsResponseResult:
    return CreateAclsResponseResult(error_code=error_of(error.code), error_message=str(error))

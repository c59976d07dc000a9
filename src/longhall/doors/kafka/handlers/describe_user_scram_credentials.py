"""DescribeUserScramCredentials: the mechanisms and iterations of users."""

from __future__ import annotations

from longhall.directory.accounts import MECHANISMS
from longhall.doors.kafka.connection import Call
from longhall.doors.kafka.door import Door
from longhall.doors.kafka.errors import error_of
from longhall.doors.kafka.wire.error_codes import ErrorCode
from longhall.doors.kafka.wire.messages.scram_users import (
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
    DescribeUserScramCredentialsResponseCredential,
    DescribeUserScramCredentialsResponseResult,
)
from longhall.errors import Code, LonghallError
from longhall.service.directory_operations import ListUsers, UserView


async def handle(
    door: Door, request: DescribeUserScramCredentialsRequest, call: Call
) -> DescribeUserScramCredentialsResponse:
    try:
        users = {user.name: user for user in await door.service.dispatch(ListUsers(), call.caller)}
    except LonghallError as error:
        return DescribeUserScramCredentialsResponse(error_code=error_of(error.code), error_message=str(error))
    wanted = [user.name for user in request.users or []]
    if not wanted:
        wanted = [name for name, user in users.items() if user.iterations]
    return DescribeUserScramCredentialsResponse(
        results=[_result(name, users.get(name), wanted.count(name)) for name in dict.fromkeys(wanted)]
    )


def _result(name: str, user: UserView | None, count: int) -> DescribeUserScramCredentialsResponseResult:
    if count > 1:
        said = f"Cannot describe SCRAM credentials for the same user twice in a single request: {name}"
        return DescribeUserScramCredentialsResponseResult(
            user=name, error_code=ErrorCode.DUPLICATE_RESOURCE, error_message=said
        )
    if user is None or not user.iterations:
        said = f"Attempt to describe a user credential that does not exist: {name}"
        code = error_of(Code.UNKNOWN_ENTRY)
        return DescribeUserScramCredentialsResponseResult(user=name, error_code=code, error_message=said)
    return DescribeUserScramCredentialsResponseResult(
        user=name,
        credential_infos=[
            DescribeUserScramCredentialsResponseCredential(
                mechanism=MECHANISMS.index(mechanism) + 1, iterations=iterations
            )
            for mechanism, iterations in sorted(user.iterations.items())
        ],
    )

"""AlterUserScramCredentials: set and remove the SCRAM credentials of users. The changes of one user are atomic."""

from __future__ import annotations

from longhall.directory.accounts import MECHANISMS
from longhall.doors.kafka.connection import Call
from longhall.doors.kafka.door import Door
from longhall.doors.kafka.errors import error_of
from longhall.doors.kafka.wire.error_codes import ErrorCode
from longhall.doors.kafka.wire.messages.scram_users import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsRequestDeletion,
    AlterUserScramCredentialsRequestUpsertion,
    AlterUserScramCredentialsResponse,
    AlterUserScramCredentialsResponseResult,
)
from longhall.errors import Code, LonghallError
from longhall.front.scram import HASHES, key_of_salted
from longhall.service.accounts import ITERATIONS_MAX, ITERATIONS_MIN
from longhall.service.directory_operations import ChangeScramKeys

Change = AlterUserScramCredentialsRequestDeletion | AlterUserScramCredentialsRequestUpsertion


async def handle(
    door: Door, request: AlterUserScramCredentialsRequest, call: Call
) -> AlterUserScramCredentialsResponse:
    changes: dict[str, list[Change]] = {}
    every: list[Change] = [*request.deletions, *request.upsertions]
    for change in every:
        changes.setdefault(change.name, []).append(change)
    response = AlterUserScramCredentialsResponse()
    for user, of_user in changes.items():
        error, said = _fault(user, of_user) or await _change(door, call, user, of_user)
        response.results.append(
            AlterUserScramCredentialsResponseResult(user=user, error_code=error, error_message=said)
        )
    return response


def _fault(user: str, changes: list[Change]) -> tuple[int, str] | None:
    if not user:
        return ErrorCode.UNACCEPTABLE_CREDENTIAL, "Username must not be empty"
    for change in changes:
        if not 1 <= change.mechanism <= len(MECHANISMS):
            return ErrorCode.UNSUPPORTED_SASL_MECHANISM, "Unknown SCRAM mechanism"
        if isinstance(change, AlterUserScramCredentialsRequestUpsertion):
            if change.iterations < ITERATIONS_MIN:
                return ErrorCode.UNACCEPTABLE_CREDENTIAL, "Too few iterations"
            if change.iterations > ITERATIONS_MAX:
                return ErrorCode.UNACCEPTABLE_CREDENTIAL, "Too many iterations"
            if not change.salted_password:
                return ErrorCode.UNACCEPTABLE_CREDENTIAL, "The salted password must not be empty"
    if len({change.mechanism for change in changes}) != len(changes):
        return ErrorCode.DUPLICATE_RESOURCE, "A user credential cannot be altered twice in the same request"
    return None


async def _change(door: Door, call: Call, user: str, changes: list[Change]) -> tuple[int, str | None]:
    put = [
        key_of_salted(MECHANISMS[change.mechanism - 1], change.salted_password, change.salt, change.iterations)
        for change in changes
        if isinstance(change, AlterUserScramCredentialsRequestUpsertion)
    ]
    removed = [
        MECHANISMS[change.mechanism - 1]
        for change in changes
        if isinstance(change, AlterUserScramCredentialsRequestDeletion)
    ]
    try:
        await door.service.dispatch(ChangeScramKeys(user, put, removed), call.caller)
    except LonghallError as error:
        refused = error.code in (Code.INVALID_NAME, Code.INVALID_REQUEST)
        return ErrorCode.UNACCEPTABLE_CREDENTIAL if refused else error_of(error.code), str(error)
    return 0, None


assert tuple(HASHES) == MECHANISMS, "the numbers of Kafka are places in this table"

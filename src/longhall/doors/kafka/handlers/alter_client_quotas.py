"""AlterClientQuotas: set and remove the limits of users and client ids. The changes of one entity are atomic.

Limits without a meaning here are refused with the reason, in Kafka's words for a malformed request: a limit that is
stored and not enforced would mislead its administrator.
"""

from __future__ import annotations

from typing import Final

from longhall.directory.client_limits import DEFAULT, RATES, LimitChange, LimitEntity, check_change
from longhall.doors.kafka.connection import Call
from longhall.doors.kafka.door import Door
from longhall.doors.kafka.errors import error_of
from longhall.doors.kafka.wire.messages.client_quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasRequestEntity,
    AlterClientQuotasRequestEntry,
    AlterClientQuotasRequestOp,
    AlterClientQuotasResponse,
    AlterClientQuotasResponseEntity,
    AlterClientQuotasResponseEntry,
)
from longhall.errors import Code, LonghallError
from longhall.service.limit_operations import ChangeLimits

USER: Final = "user"
CLIENT_ID: Final = "client-id"
ADDRESS: Final = "ip"
_NOT_ENFORCED: Final = {
    "request_percentage": "one event loop serves all clients, so a share of its threads' time means nothing",
    "connection_creation_rate": "the settings connections_max and connections_per_address_max bound connections",
    "controller_mutation_rate": "`longhall limit set --operation manage` limits changes of topics, at every door",
}


async def handle(door: Door, request: AlterClientQuotasRequest, call: Call) -> AlterClientQuotasResponse:
    response = AlterClientQuotasResponse()
    seen: set[LimitEntity] = set()
    for entry in request.entries:
        error_code, said = 0, None
        try:
            change = LimitChange(_entity(entry.entity), *_rates(entry.ops))
            if change.entity in seen:
                raise _wrong("an entity cannot be altered twice in the same request")
            seen.add(change.entity)
            check_change(change)
            if not request.validate_only:
                await door.service.dispatch(ChangeLimits(change), call.caller)
        except LonghallError as error:
            error_code, said = error_of(error.code), str(error)
        response.entries.append(_result(entry, error_code, said))
    return response


def _result(entry: AlterClientQuotasRequestEntry, error_code: int, said: str | None) -> AlterClientQuotasResponseEntry:
    entity = [
        AlterClientQuotasResponseEntity(entity_type=one.entity_type, entity_name=one.entity_name)
        for one in entry.entity
    ]
    return AlterClientQuotasResponseEntry(error_code=error_code, error_message=said, entity=entity)


def _entity(parts: list[AlterClientQuotasRequestEntity]) -> LimitEntity:
    found: dict[str, str] = {}
    for part in parts:
        if part.entity_type == ADDRESS:
            raise _wrong(
                "quotas of addresses are not enforced: connections_per_address_max bounds their connections, and "
                "`longhall limit set --client-address` what they use"
            )
        if part.entity_type not in (USER, CLIENT_ID) or part.entity_type in found:
            raise _wrong(f"an entity has at most one {USER} and one {CLIENT_ID}, not '{part.entity_type}'")
        if part.entity_name == "":
            raise _wrong("the name of an entity is not empty; null is the default")
        found[part.entity_type] = DEFAULT if part.entity_name is None else part.entity_name
    return LimitEntity(found.get(USER), found.get(CLIENT_ID))


def _rates(changes: list[AlterClientQuotasRequestOp]) -> tuple[dict[str, int], list[str]]:
    """The rates to set and those to remove."""
    put: dict[str, int] = {}
    removed: list[str] = []
    for one in changes:
        if one.key in _NOT_ENFORCED:
            raise _wrong(f"'{one.key}' is not enforced: {_NOT_ENFORCED[one.key]}")
        if one.key not in RATES:
            raise _wrong(f"there is no limit '{one.key}': the limits are {' and '.join(RATES)}")
        if one.key in put or one.key in removed:
            raise _wrong(f"'{one.key}' is altered twice")
        if one.remove:
            removed.append(one.key)
        elif not one.value.is_integer():  # Nor are the infinite ones.
            raise _wrong(f"'{one.key}' is a whole number of bytes a second")
        else:
            put[one.key] = int(one.value)
    return put, removed


def _wrong(why: str) -> LonghallError:
    return LonghallError(Code.INVALID_REQUEST, why)

"""DescribeClientQuotas: the limits of the users and client ids that match a filter."""

from __future__ import annotations

from typing import Final

from longhall.directory.client_limits import DEFAULT, ClientLimit, LimitEntity
from longhall.doors.kafka.connection import Call
from longhall.doors.kafka.door import Door
from longhall.doors.kafka.errors import error_of
from longhall.doors.kafka.handlers.alter_client_quotas import ADDRESS, CLIENT_ID, USER
from longhall.doors.kafka.wire.messages.client_quotas import (
    DescribeClientQuotasRequest,
    DescribeClientQuotasRequestComponent,
    DescribeClientQuotasResponse,
    DescribeClientQuotasResponseEntity,
    DescribeClientQuotasResponseEntry,
    DescribeClientQuotasResponseValue,
)
from longhall.errors import Code, LonghallError
from longhall.service.limit_operations import ListLimits

EXACT: Final = 0
ANY_DEFAULT: Final = 1
SPECIFIED: Final = 2  # Every name, and the default.


async def handle(door: Door, request: DescribeClientQuotasRequest, call: Call) -> DescribeClientQuotasResponse:
    try:
        wanted = _components(request.components)
        limits = await door.service.dispatch(ListLimits(), call.caller)
    except LonghallError as error:
        return DescribeClientQuotasResponse(error_code=error_of(error.code), error_message=str(error), entries=None)
    return DescribeClientQuotasResponse(
        entries=[_entry(one) for one in limits if _matches(_parts(one.entity), wanted, request.strict)]
    )


def _components(
    components: list[DescribeClientQuotasRequestComponent],
) -> dict[str, DescribeClientQuotasRequestComponent]:
    wanted: dict[str, DescribeClientQuotasRequestComponent] = {}
    for one in components:
        if one.entity_type not in (USER, CLIENT_ID, ADDRESS):
            raise LonghallError(Code.UNSUPPORTED_VERSION, f"Unsupported entity type {one.entity_type}")
        if one.entity_type in wanted:
            raise _wrong(f"a filter has each of {USER}, {CLIENT_ID} and {ADDRESS} at most once")
        if one.match_type not in (EXACT, ANY_DEFAULT, SPECIFIED) or (one.match_type == EXACT) != bool(one.match):
            raise _wrong("a filter has the type 0 with a name, or the type 1 or 2 without one")
        wanted[one.entity_type] = one
    return wanted


def _matches(parts: dict[str, str], wanted: dict[str, DescribeClientQuotasRequestComponent], is_strict: bool) -> bool:
    """True if an entity has all parts that the filter names, and no other if it is strict."""
    if is_strict and parts.keys() != wanted.keys():
        return False
    for kind, one in wanted.items():
        name = parts.get(kind)
        if name is None or (one.match_type == EXACT and name != one.match):
            return False
        if one.match_type == ANY_DEFAULT and name != DEFAULT:
            return False
    return True


def _parts(entity: LimitEntity) -> dict[str, str]:
    parts = ((USER, entity.user), (CLIENT_ID, entity.client_id))
    return {kind: name for kind, name in parts if name is not None}


def _entry(limit: ClientLimit) -> DescribeClientQuotasResponseEntry:
    return DescribeClientQuotasResponseEntry(
        entity=[
            DescribeClientQuotasResponseEntity(entity_type=kind, entity_name=name or None)
            for kind, name in _parts(limit.entity).items()
        ],
        values=[
            DescribeClientQuotasResponseValue(key=key, value=float(rate)) for key, rate in sorted(limit.rates.items())
        ],
    )


def _wrong(why: str) -> LonghallError:
    return LonghallError(Code.INVALID_REQUEST, why)

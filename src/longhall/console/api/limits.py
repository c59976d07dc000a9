"""Rate limits over HTTP: list, set and remove. In JSON `*` stands for every name of a part of a scope."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from longhall.console.api.asked import Asked, Reply
from longhall.console.api.service import Route
from longhall.directory.rate_limits import (
    BYTES,
    EVERY,
    EVERY_TEXT,
    MESSAGES,
    PARTS,
    REQUESTS,
    LimitScope,
    RateLimit,
    scope_name,
    scope_of_name,
)
from longhall.errors import Code, LonghallError
from longhall.service.limit_operations import ListRateLimits, RemoveRateLimit, SetRateLimit
from longhall.service.router import Router


class LimitShape(msgspec.Struct, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """A limit in JSON; `id` is in responses only."""

    tenant: str | None = None
    user: str | None = None
    queue: str | None = None
    operation: str | None = None
    address: str | None = None
    bytes_a_second: int | None = None
    messages_a_second: int | None = None
    requests_a_second: int | None = None
    id: str = ""


def _limit(shape: LimitShape) -> RateLimit:
    names = {part: getattr(shape, part) for part in PARTS}
    if "" in names.values():
        raise LonghallError(Code.INVALID_REQUEST, f"a name is not empty; {EVERY_TEXT} stands for every name")
    scope = LimitScope(**{part: EVERY if name == EVERY_TEXT else name for part, name in names.items()})
    given = {BYTES: shape.bytes_a_second, MESSAGES: shape.messages_a_second, REQUESTS: shape.requests_a_second}
    return RateLimit(scope, {rate: a_second for rate, a_second in given.items() if a_second is not None})


def _shape(limit: RateLimit) -> LimitShape:
    names = {part: getattr(limit.scope, part) for part in PARTS}
    shown: dict[str, Any] = {part: EVERY_TEXT if name == EVERY else name for part, name in names.items()}
    return LimitShape(**{**shown, **limit.rates}, id=scope_name(limit.scope))


async def list_limits(service: Router, asked: Asked) -> Reply:
    """GET limits"""
    return Reply([_shape(limit) for limit in await service.call(ListRateLimits(), asked.caller)])


async def set_limit(service: Router, asked: Asked) -> Reply:
    """PUT limits"""
    limit = _limit(asked.read(LimitShape))
    await service.call(SetRateLimit(limit), asked.caller)
    return Reply(_shape(limit))


async def remove_limit(service: Router, asked: Asked) -> Reply:
    """DELETE limits/ID"""
    scope = scope_of_name(asked.name)
    if scope is None or not await service.call(RemoveRateLimit(scope), asked.caller):
        raise LonghallError(Code.UNKNOWN_ENTRY, f"there is no limit '{asked.name[:100]}'")
    return Reply({"removed": asked.name})


LIMIT_ROUTES: Final = (
    Route("GET", "limits", list_limits),
    Route("PUT", "limits", set_limit),
    Route("DELETE", "limits/*", remove_limit),
)

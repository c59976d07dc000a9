"""The data keys of sealed queues and topics through the API: shown without their bytes, rotated, destroyed."""

from __future__ import annotations

from typing import Final

import msgspec

from longhall.broker.seal_keys import KeyRing
from longhall.console.api.asked import Asked, Reply
from longhall.console.api.service import Route
from longhall.errors import Code, LonghallError
from longhall.service.router import Router
from longhall.service.seal_operations import ForgetDataKey, RotateDataKey, ShowSealing


class DataKeyView(msgspec.Struct):
    """A data key: its number, the master key, and whether it seals what is sent now."""

    number: int
    master: str
    created_ms: int
    seals: bool


class SealingView(msgspec.Struct):
    """How a queue or topic is sealed. `sealed` is the master key of its configuration; empty: not sealed now."""

    name: str
    sealed: str
    reuse_ms: int
    keys: list[DataKeyView]


async def show_keys(service: Router, asked: Asked) -> Reply:
    """GET /keys/NAME"""
    return Reply(_view(asked.name, await service.call(ShowSealing(asked.name), asked.caller)))


async def rotate_key(service: Router, asked: Asked) -> Reply:
    """POST /keys/NAME/rotate"""
    return Reply(_view(asked.name, await service.call(RotateDataKey(asked.name), asked.caller)))


async def destroy_key(service: Router, asked: Asked) -> Reply:
    """DELETE /keys/NAME/NUMBER"""
    number = asked.names[1]
    if not number.isdecimal() or len(number) > len(str(1 << 32)):
        raise LonghallError(Code.INVALID_REQUEST, f"'{number[:100]}' is not the number of a data key")
    return Reply(_view(asked.name, await service.call(ForgetDataKey(asked.name, int(number)), asked.caller)))


def _view(name: str, ring: KeyRing) -> SealingView:
    last = ring.keys[-1].number if ring.keys and ring.master else 0
    keys = [DataKeyView(key.number, key.master, key.created_ms, key.number == last) for key in ring.keys]
    return SealingView(name, ring.master, ring.reuse_ms, keys)


KEY_ROUTES: Final = (
    Route("GET", "keys/*", show_keys),
    Route("POST", "keys/*/rotate", rotate_key),
    Route("DELETE", "keys/*/*", destroy_key),
)

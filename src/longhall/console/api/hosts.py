"""The hosts of a cluster through the API: added, drained, moved, another leader, another number of copies.

What has begun is answered at once (202); `/cluster` says how far it is.
"""

from __future__ import annotations

from http import HTTPStatus
from typing import Annotated, Protocol

import msgspec
from msgspec import Meta

from longhall.console.api.asked import Asked, Reply
from longhall.console.api.service import Handler, Route
from longhall.console.api.verbs import Queues
from longhall.errors import Code, LonghallError

NODE_ID_MAX = 2**31 - 1
NodeNumber = Annotated[int, Meta(ge=1, le=NODE_ID_MAX)]


class HostVerbs(Protocol):
    """What a node does with such requests. Each returns a sentence about what has begun."""

    async def add(self, node: int) -> str: ...

    async def drain(self, node: int) -> str: ...

    async def move(self, source: int, target: int) -> str: ...

    async def spread(self) -> str: ...

    async def lead(self, node: int) -> str: ...

    async def set_factor(self, factor: int) -> str: ...


class Leader(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """Who is to lead."""

    node: NodeNumber


class Move(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """Whose copy goes where; without either, whichever makes the spread over racks better."""

    source: NodeNumber | None = None
    target: NodeNumber | None = None


class Factor(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """How many copies."""

    factor: int


class Begun(msgspec.Struct, kw_only=True):
    """What was answered."""

    message: str


def host_routes(verbs: HostVerbs) -> tuple[Route, ...]:
    """For a node that is one of several."""

    async def add(queues: Queues, asked: Asked) -> Reply:
        return _begun(await verbs.add(_number(asked)))

    async def drain(queues: Queues, asked: Asked) -> Reply:
        return _begun(await verbs.drain(_number(asked)))

    async def lead(queues: Queues, asked: Asked) -> Reply:
        return _begun(await verbs.lead(asked.read(Leader).node))

    async def move(queues: Queues, asked: Asked) -> Reply:
        wanted = asked.read(Move)
        if wanted.source is None and wanted.target is None:
            return _begun(await verbs.spread())
        if wanted.source is None or wanted.target is None:
            raise LonghallError(Code.INVALID_REQUEST, "name both, source and target, or none of them")
        return _begun(await verbs.move(wanted.source, wanted.target))

    async def set_factor(queues: Queues, asked: Asked) -> Reply:
        return _begun(await verbs.set_factor(asked.read(Factor).factor))

    handlers: dict[tuple[str, str], Handler] = {
        ("POST", "cluster/hosts/*/add"): add,
        ("POST", "cluster/hosts/*/drain"): drain,
        ("PUT", "cluster/leader"): lead,
        ("POST", "cluster/moves"): move,
        ("PUT", "cluster/factor"): set_factor,
    }
    return tuple(Route(method, path, handler) for (method, path), handler in handlers.items())


def _number(asked: Asked) -> int:
    try:
        number = int(asked.name)
    except ValueError:
        number = 0
    if not 1 <= number <= NODE_ID_MAX:
        raise LonghallError(Code.INVALID_REQUEST, f"nodes have numbers from 1 on, and this is {asked.name[:40]!r}")
    return number


def _begun(message: str) -> Reply:
    return Reply(Begun(message=message), HTTPStatus.ACCEPTED)

"""The wings of a cluster through the API: made on chosen hosts, moved to others, ended.

What has begun is answered at once (202); `/cluster` says how far it is.
"""

from __future__ import annotations

from http import HTTPStatus
from typing import Annotated, Protocol

import msgspec
from msgspec import Meta

from longhall.console.api.asked import Asked, Reply
from longhall.console.api.hosts import Begun, NodeNumber
from longhall.console.api.service import Route
from longhall.console.api.verbs import Queues


class GroupAdministration(Protocol):
    """What a node does with such requests. Each returns a sentence about what has begun."""

    async def add(self, name: str, hosts: tuple[int, ...], reserved: bool) -> str: ...

    async def remove(self, name: str) -> str: ...


class GroupWanted(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """Where a wing is to be. The first of the hosts leads it if it can; reserved, they keep nothing else."""

    hosts: Annotated[list[NodeNumber], Meta(min_length=1, max_length=100)]
    reserved: bool = False


def wing_routes(verbs: GroupAdministration) -> tuple[Route, ...]:
    """For a node that is one of several."""

    async def add(queues: Queues, asked: Asked) -> Reply:
        wanted = asked.read(GroupWanted)
        return _begun(await verbs.add(asked.name, tuple(wanted.hosts), wanted.reserved))

    async def remove(queues: Queues, asked: Asked) -> Reply:
        return _begun(await verbs.remove(asked.name))

    return (Route("PUT", "cluster/wings/*", add), Route("DELETE", "cluster/wings/*", remove))


def _begun(message: str) -> Reply:
    return Reply(Begun(message=message), HTTPStatus.ACCEPTED)

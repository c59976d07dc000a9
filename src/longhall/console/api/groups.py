"""The wings of a cluster through the API: made on chosen hosts, moved to others, ended.

What has begun is answered at once (202); `/cluster` says how far it is.
"""

from __future__ import annotations

from typing import Annotated, Final

import msgspec
from msgspec import Meta

from longhall.console.api.asked import Asked, Reply
from longhall.console.api.hosts import NodeNumber, begun
from longhall.console.api.service import Route
from longhall.service.administration import AddGroup, RemoveGroup
from longhall.service.router import Router


class GroupWanted(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """Where a wing is to be. The first of the hosts leads it if it can; reserved, they keep nothing else."""

    hosts: Annotated[list[NodeNumber], Meta(min_length=1, max_length=100)]
    reserved: bool = False


async def add_group(service: Router, asked: Asked) -> Reply:
    """PUT /cluster/wings/*"""
    wanted = asked.read(GroupWanted)
    return begun(await service.call(AddGroup(asked.name, wanted.hosts, wanted.reserved), asked.caller))


async def remove_group(service: Router, asked: Asked) -> Reply:
    """DELETE /cluster/wings/*"""
    return begun(await service.call(RemoveGroup(asked.name), asked.caller))


GROUP_ROUTES: Final = (Route("PUT", "cluster/wings/*", add_group), Route("DELETE", "cluster/wings/*", remove_group))

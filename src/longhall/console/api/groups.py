"""The wings of a cluster through the API: create on chosen hosts, move, remove.

The reply comes when the change has begun (202); `/cluster` shows its progress.
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
    """The hosts of a wing. The first is the preferred leader; reserved hosts store nothing else."""

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

"""The replication groups of a cluster through the API: the map of partitions; create a wing on chosen hosts, remove it.

The reply to a change comes when it has begun (202); `/cluster` shows its progress.
"""

from __future__ import annotations

from typing import Annotated, Final

import msgspec
from msgspec import Meta

from longhall.cluster.placement.cluster_map import PAGE_TOPICS_MAX
from longhall.console.api.asked import Asked, Reply
from longhall.console.api.hosts import NodeNumber, begun
from longhall.console.api.partition_moves import MOVE_ROUTES
from longhall.console.api.service import Route
from longhall.service.administration import AddGroup, BalanceGroups, MapCluster, RemoveGroup
from longhall.service.router import Router


class GroupWanted(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """The hosts of a wing. The first is the preferred leader; reserved hosts store nothing else."""

    hosts: Annotated[list[NodeNumber], Meta(min_length=1, max_length=100)]
    reserved: bool = False


class MapQuestion(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """The topics and queues of a page of the map."""

    prefix: Annotated[str, Meta(max_length=249)] = ""
    after: Annotated[str, Meta(max_length=249)] = ""
    limit: Annotated[int, Meta(ge=1, le=PAGE_TOPICS_MAX)] = 100


async def map_cluster(service: Router, asked: Asked) -> Reply:
    """GET /cluster/map"""
    wanted = asked.question(MapQuestion)
    return Reply(await service.call(MapCluster(wanted.prefix, wanted.after, wanted.limit), asked.caller))


class BalanceWanted(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """The request: balance the hosts, or only show the plan."""

    dry_run: bool = False


async def balance_groups(service: Router, asked: Asked) -> Reply:
    """POST /cluster/balance"""
    return Reply(await service.call(BalanceGroups(asked.read(BalanceWanted).dry_run), asked.caller))


async def add_group(service: Router, asked: Asked) -> Reply:
    """PUT /cluster/wings/*"""
    wanted = asked.read(GroupWanted)
    return begun(await service.call(AddGroup(asked.name, wanted.hosts, wanted.reserved), asked.caller))


async def remove_group(service: Router, asked: Asked) -> Reply:
    """DELETE /cluster/wings/*"""
    return begun(await service.call(RemoveGroup(asked.name), asked.caller))


GROUP_ROUTES: Final = (
    Route("GET", "cluster/map", map_cluster),
    Route("POST", "cluster/balance", balance_groups),
    Route("PUT", "cluster/wings/*", add_group),
    Route("DELETE", "cluster/wings/*", remove_group),
    *MOVE_ROUTES,
)

"""The hosts of a cluster through the API: add, drain, move a replica, transfer leadership, change the replica count.

The reply comes when the change has begun (202); `/cluster` shows its progress.
"""

from __future__ import annotations

from http import HTTPStatus
from typing import Annotated, Final

import msgspec
from msgspec import Meta

from longhall.console.api.asked import Asked, Reply
from longhall.console.api.service import Route
from longhall.errors import Code, LonghallError
from longhall.service.administration import (
    AddHost,
    DrainHost,
    MoveReplica,
    SetReplicationFactor,
    SpreadReplicas,
    TransferLeadership,
)
from longhall.service.router import Router

NODE_ID_MAX = 2**31 - 1
NodeNumber = Annotated[int, Meta(ge=1, le=NODE_ID_MAX)]


class Leader(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """The node that should lead."""

    node: NodeNumber


class Move(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """The replica to move and its target; with neither, the move that spreads replicas best over racks."""

    source: NodeNumber | None = None
    target: NodeNumber | None = None


class Factor(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """The number of replicas."""

    factor: int


class Begun(msgspec.Struct, kw_only=True):
    """The reply: a sentence about what has begun."""

    message: str


async def add_host(service: Router, asked: Asked) -> Reply:
    """POST /cluster/hosts/*/add"""
    return begun(await service.call(AddHost(_number(asked)), asked.caller))


async def drain_host(service: Router, asked: Asked) -> Reply:
    """POST /cluster/hosts/*/drain"""
    return begun(await service.call(DrainHost(_number(asked)), asked.caller))


async def transfer_leadership(service: Router, asked: Asked) -> Reply:
    """PUT /cluster/leader"""
    return begun(await service.call(TransferLeadership(asked.read(Leader).node), asked.caller))


async def move_replica(service: Router, asked: Asked) -> Reply:
    """POST /cluster/moves"""
    wanted = asked.read(Move)
    if wanted.source is None and wanted.target is None:
        return begun(await service.call(SpreadReplicas(), asked.caller))
    if wanted.source is None or wanted.target is None:
        raise LonghallError(Code.INVALID_REQUEST, "name both, source and target, or none of them")
    return begun(await service.call(MoveReplica(wanted.source, wanted.target), asked.caller))


async def set_factor(service: Router, asked: Asked) -> Reply:
    """PUT /cluster/factor"""
    return begun(await service.call(SetReplicationFactor(asked.read(Factor).factor), asked.caller))


HOST_ROUTES: Final = (
    Route("POST", "cluster/hosts/*/add", add_host),
    Route("POST", "cluster/hosts/*/drain", drain_host),
    Route("PUT", "cluster/leader", transfer_leadership),
    Route("POST", "cluster/moves", move_replica),
    Route("PUT", "cluster/factor", set_factor),
)


def _number(asked: Asked) -> int:
    try:
        number = int(asked.name)
    except ValueError:
        number = 0
    if not 1 <= number <= NODE_ID_MAX:
        raise LonghallError(Code.INVALID_REQUEST, f"nodes have numbers from 1 on, and this is {asked.name[:40]!r}")
    return number


def begun(message: str) -> Reply:
    """The reply to an operation that has begun."""
    return Reply(Begun(message=message), HTTPStatus.ACCEPTED)

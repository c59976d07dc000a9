"""Moves of partitions between replication groups through the API: begin, list, cancel.

The reply to a change comes when it has begun (202); the list shows its progress.
"""

from __future__ import annotations

from http import HTTPStatus
from typing import Annotated, Final

import msgspec
from msgspec import Meta

from longhall.console.api.asked import Asked, Reply
from longhall.console.api.service import Route
from longhall.errors import Code, LonghallError
from longhall.service.partition_operations import (
    CancelPartitionMoves,
    CancelQueueMove,
    ListPartitionMoves,
    MovePartitions,
    MovingPartition,
    PlaceQueue,
    PlaceTopic,
)
from longhall.service.router import Router


class PlacementWanted(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """The new placement of a topic, or the groups of single partitions."""

    placement: Annotated[str, Meta(max_length=60)] = ""
    partitions: Annotated[dict[int, str], Meta(max_length=1000)] = {}


class QueuePlacementWanted(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """The new placement of a queue, or the group that shall have it."""

    placement: Annotated[str, Meta(max_length=60)] = ""
    group: Annotated[str, Meta(max_length=60)] = ""


class MovesBegun(msgspec.Struct, kw_only=True):
    """The number of partitions that begin to move, or whose move is cancelled."""

    partitions: int


class MovesUnderWay(msgspec.Struct, kw_only=True):
    """All moves."""

    moves: list[MovingPartition]


async def place_topic(service: Router, asked: Asked) -> Reply:
    """PUT /topics/*/placement"""
    wanted = asked.read(PlacementWanted)
    if bool(wanted.placement) == bool(wanted.partitions):
        raise LonghallError(Code.INVALID_REQUEST, "give `placement`, or `partitions` with their groups")
    if wanted.placement:
        count = await service.call(PlaceTopic(asked.name, wanted.placement), asked.caller)
    else:
        count = await service.call(MovePartitions(asked.name, wanted.partitions), asked.caller)
    return Reply(MovesBegun(partitions=count), HTTPStatus.ACCEPTED)


async def place_queue(service: Router, asked: Asked) -> Reply:
    """PUT /queues/*/placement"""
    wanted = asked.read(QueuePlacementWanted)
    if bool(wanted.placement) == bool(wanted.group):
        raise LonghallError(Code.INVALID_REQUEST, "give `placement`, or `group`")
    count = await service.call(PlaceQueue(asked.name, wanted.placement, wanted.group), asked.caller)
    return Reply(MovesBegun(partitions=count), HTTPStatus.ACCEPTED)


async def cancel_queue_move(service: Router, asked: Asked) -> Reply:
    """DELETE /queues/*/placement"""
    count = await service.call(CancelQueueMove(asked.name), asked.caller)
    return Reply(MovesBegun(partitions=count), HTTPStatus.ACCEPTED)


async def list_moves(service: Router, asked: Asked) -> Reply:
    """GET /cluster/partition-moves"""
    return Reply(MovesUnderWay(moves=await service.call(ListPartitionMoves(), asked.caller)))


async def cancel_moves(service: Router, asked: Asked) -> Reply:
    """DELETE /topics/*/placement"""
    count = await service.call(CancelPartitionMoves(asked.name), asked.caller)
    return Reply(MovesBegun(partitions=count), HTTPStatus.ACCEPTED)


MOVE_ROUTES: Final = (
    Route("PUT", "topics/*/placement", place_topic),
    Route("DELETE", "topics/*/placement", cancel_moves),
    Route("PUT", "queues/*/placement", place_queue),
    Route("DELETE", "queues/*/placement", cancel_queue_move),
    Route("GET", "cluster/partition-moves", list_moves),
)

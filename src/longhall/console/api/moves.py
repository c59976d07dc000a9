"""Moves of messages out of a queue: dead letters on their way back to work."""

from __future__ import annotations

from http import HTTPStatus
from typing import Annotated

import msgspec
from msgspec import Meta

from longhall.console.api.asked import Asked, Reply
from longhall.console.api.verbs import Queues
from longhall.queues.messages import MoveTask
from longhall.queues.redrive import RATE_MAX


class NewMove(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """Where to (empty: each back to where it came from), and how many a second (0: as fast as it goes)."""

    target: str = ""
    rate_max: Annotated[int, Meta(ge=0, le=RATE_MAX)] = 0


class Moves(msgspec.Struct, kw_only=True):
    """The moves of a queue, the newest first."""

    moves: list[MoveTask]


async def start_move(queues: Queues, asked: Asked) -> Reply:
    """POST /queues/*/moves"""
    wish = asked.read(NewMove)
    return Reply(await queues.start_move(asked.name, wish.target, wish.rate_max), HTTPStatus.CREATED)


async def list_moves(queues: Queues, asked: Asked) -> Reply:
    """GET /queues/*/moves"""
    return Reply(Moves(moves=queues.moves(asked.name)))


async def cancel_move(queues: Queues, asked: Asked) -> Reply:
    """DELETE /moves/*"""
    return Reply(await queues.cancel_move(asked.name))

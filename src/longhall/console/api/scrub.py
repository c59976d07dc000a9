"""The background scrub through the API: how far it is on every node, and a pass that begins at once."""

from __future__ import annotations

from http import HTTPStatus
from typing import Protocol

import msgspec

from longhall.console.api.asked import Asked, Reply
from longhall.console.api.service import Route
from longhall.console.api.verbs import Queues


class ScrubView(msgspec.Struct, kw_only=True):
    """How far the scrub of one hall on one node is. Counters are those of its process."""

    node: int
    wing: str = ""
    passes: int = 0  # Ended since the process began.
    ratio: float = 0.0
    bytes_done: int = 0
    bytes_total: int = 0
    damage: int = 0
    repaired: int = 0
    damaged_now: list[str] = []
    damaged_count: int = 0
    completed_ms: int = 0  # 0 for never.
    interval_ms: int = 0
    reason: str = ""  # Why nothing is known.


class Scrubs(Protocol):
    """Who knows of all nodes."""

    async def look(self, *, begin: bool) -> list[ScrubView]:
        """How far they are; with `begin`, a pass begins on all of them."""


def scrub_routes(scrubs: Scrubs) -> tuple[Route, ...]:
    """For every node."""

    async def show(queues: Queues, asked: Asked) -> Reply:
        return Reply(await scrubs.look(begin=False))

    async def begin(queues: Queues, asked: Asked) -> Reply:
        return Reply(await scrubs.look(begin=True), HTTPStatus.ACCEPTED)

    return (Route("GET", "scrub", show), Route("POST", "scrub", begin))

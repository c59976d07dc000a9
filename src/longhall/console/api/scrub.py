"""The background scrub through the API: its progress on every node, and a pass that begins at once."""

from __future__ import annotations

from http import HTTPStatus
from typing import Final

from longhall.console.api.asked import Asked, Reply
from longhall.console.api.service import Route
from longhall.service.administration import ScrubNodes
from longhall.service.router import Router


async def show_scrub(service: Router, asked: Asked) -> Reply:
    """GET /scrub"""
    return Reply(await service.call(ScrubNodes(False), asked.caller))


async def begin_scrub(service: Router, asked: Asked) -> Reply:
    """POST /scrub"""
    return Reply(await service.call(ScrubNodes(True), asked.caller), HTTPStatus.ACCEPTED)


SCRUB_ROUTES: Final = (Route("GET", "scrub", show_scrub), Route("POST", "scrub", begin_scrub))

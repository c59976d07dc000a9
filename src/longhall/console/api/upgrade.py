"""The feature level of a cluster, shown and raised over the API."""

from __future__ import annotations

from typing import Annotated, Final

import msgspec
from msgspec import Meta

from longhall.console.api.asked import Asked, Reply
from longhall.console.api.service import Route
from longhall.service.administration import RaiseFeatureLevel
from longhall.service.router import Router


class Upgrade(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """The request: raise the level to this one, 0 for the newest possible; or a dry run."""

    level: Annotated[int, Meta(ge=0, le=1000)] = 0
    dry_run: bool = False


async def upgrade(service: Router, asked: Asked) -> Reply:
    """POST /cluster/upgrade"""
    wanted = asked.read(Upgrade)
    return Reply(await service.call(RaiseFeatureLevel(wanted.level, wanted.dry_run), asked.caller))


UPGRADE_ROUTES: Final = (Route("POST", "cluster/upgrade", upgrade),)

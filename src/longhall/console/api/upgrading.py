"""The feature level of a cluster, asked for and raised over the API. What it means is the cluster's to know."""

from __future__ import annotations

from typing import Annotated, Protocol

import msgspec
from msgspec import Meta

from longhall.console.api.asked import Asked, Reply
from longhall.console.api.service import Handler, Route
from longhall.console.api.verbs import Queues


class Upgrade(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """What is asked: to raise the level to this one, 0 for the newest that can be; or only what would happen."""

    level: Annotated[int, Meta(ge=0, le=1000)] = 0
    dry_run: bool = False


class Upgraded(msgspec.Struct, kw_only=True):
    """The level before and after, the newest that can be, and what stands against more."""

    before: int
    level: int
    possible: int
    obstacles: list[str]


class Upgrades(Protocol):
    """Who raises it."""

    async def upgrade(self, level: int, *, dry_run: bool) -> Upgraded:
        """Raise it to this level, or to the newest that can be for 0. LonghallError when that cannot be."""


def upgrade_route(upgrades: Upgrades) -> Route:
    """The one thing that can be asked."""
    return Route("POST", "cluster/upgrade", _handler(upgrades))


def _handler(upgrades: Upgrades) -> Handler:
    async def upgrade(queues: Queues, asked: Asked) -> Reply:
        wanted = asked.read(Upgrade)
        return Reply(await upgrades.upgrade(wanted.level, dry_run=wanted.dry_run))

    return upgrade

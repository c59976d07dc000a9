"""Recovery of a cluster's record over the API: the copies of all nodes, the possible recovery, and its execution."""

from __future__ import annotations

from typing import Annotated, Protocol

import msgspec
from msgspec import Meta

from longhall.console.api.asked import Asked, Reply
from longhall.console.api.service import Route
from longhall.service.router import Router


class Recover(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """The request: a dry run, a rebuild of the proven record, or an unclean election of one node."""

    dry_run: bool = True
    unclean: Annotated[int, Meta(ge=0, le=2**31 - 1)] = (
        0  # The node whose copy the cluster continues with, although others may have more entries.
    )


class CopyView(msgspec.Struct, kw_only=True):
    """One node's copy. The chosen node lacks `lost_entries` of it, of which `lost_committed` were committed."""

    node: int
    role: str
    intact: bool
    epoch: int
    index: int
    committed: int
    replicas: list[int]
    reason: str = ""
    lost_entries: int = 0
    lost_committed: int = 0


class RecoveryView(msgspec.Struct, kw_only=True):
    """The record at the coordinator, the copies, and the recovery that is possible or was done."""

    record: str  # The state of the record: "absent", "stale" or "fine".
    leader: int
    epoch: int
    copies: list[CopyView]
    missing: list[int]  # Replicas according to the logs that did not answer.
    provable: bool
    reason: str  # Why it is not provable.
    chosen: int  # The node with the most complete copy that answers, or the one that was asked for.
    done: bool = False


class Recovery(Protocol):
    """The recovery of the record, as the API uses it."""

    async def view(self, unclean: int) -> RecoveryView:
        """The recovery that is possible."""

    async def recover(self, unclean: int) -> RecoveryView:
        """Recover the record. LonghallError if that is not possible."""


def recovery_routes(recovery: Recovery) -> tuple[Route, ...]:
    """The routes of a node of a cluster, with or without a record. They are never forwarded to the leader."""

    async def recover(service: Router, asked: Asked) -> Reply:
        wanted = asked.read(Recover)
        if wanted.dry_run:
            return Reply(await recovery.view(wanted.unclean))
        return Reply(await recovery.recover(wanted.unclean))

    return (Route("POST", "cluster/recover", recover),)

"""Recovery of a cluster's record over the API: what each node has, what can be done, and doing it."""

from __future__ import annotations

from typing import Annotated, Protocol

import msgspec
from msgspec import Meta

from longhall.console.api.asked import Asked, Reply
from longhall.console.api.service import Route
from longhall.service.router import Router


class Recover(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """What is asked: only to show what can be done, to rebuild what is proven, or to go on with one node's copy."""

    dry_run: bool = True
    unclean: Annotated[int, Meta(ge=0, le=2**31 - 1)] = (
        0  # The node whose copy is gone on with, though others may have more.
    )


class CopyView(msgspec.Struct, kw_only=True):
    """One node's copy. `lost_entries` is what the chosen node lacks of it, `lost_committed` how many were committed."""

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
    """The record as the coordinator has it, the copies, and what can be done or was done."""

    record: str  # "absent", "stale", "fine": what is wrong with the record.
    leader: int
    epoch: int
    copies: list[CopyView]
    missing: list[int]  # Nodes that keep a copy by what the logs note, and did not answer.
    provable: bool
    reason: str  # Why it is not.
    chosen: int  # The node with the most complete copy that answers, or the one that was asked for.
    done: bool = False


class Recovery(Protocol):
    """Who looks and who does."""

    async def view(self, unclean: int) -> RecoveryView:
        """What can be done."""

    async def recover(self, unclean: int) -> RecoveryView:
        """Do it. LonghallError if it cannot be done."""


def recovery_routes(recovery: Recovery) -> tuple[Route, ...]:
    """For a node of a cluster, with or without a record. Answered by the node that is asked, whoever leads."""

    async def recover(service: Router, asked: Asked) -> Reply:
        wanted = asked.read(Recover)
        if wanted.dry_run:
            return Reply(await recovery.view(wanted.unclean))
        return Reply(await recovery.recover(wanted.unclean))

    return (Route("POST", "cluster/recover", recover),)

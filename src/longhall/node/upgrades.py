"""Raising the feature level of the node's cluster, for the HTTP API."""

from __future__ import annotations

from typing import TYPE_CHECKING, final

from longhall.coordination.ports import CoordinationError
from longhall.errors import Code, LonghallError
from longhall.service.administration import RaisedLevel

if TYPE_CHECKING:
    from longhall.node.assembly import Node


@final
class NodeUpgrades:
    """Raises the level through the cluster part of the node, which is created after this object."""

    def __init__(self, node: Node) -> None:
        self._node = node

    async def upgrade(self, level: int, *, dry_run: bool) -> RaisedLevel:
        cluster_node = self._node.cluster_node
        if cluster_node is None:
            raise LonghallError(Code.INVALID_REQUEST, "this node is alone, and a lone node has no feature level")
        session = cluster_node.session
        before = session.metadata.outlook
        wanted = level or before.possible
        try:
            after = await session.upgrade(wanted, dry_run=dry_run)
        except CoordinationError as error:
            raise LonghallError(Code.NOT_READY, f"the coordinator failed: {error}") from None
        return RaisedLevel(
            before=before.level,
            level=wanted if dry_run else after.level,
            possible=after.possible,
            obstacles=after.obstacles,
        )

"""Leadership: the port through which operations and doors see the cluster.

A standalone node has none (`Hall.leadership` is None) and leads everything. In a cluster one node leads all shards; the
interface takes the shard nevertheless, so that callers do not depend on this.
"""

from __future__ import annotations

from typing import Final, Protocol

import msgspec

NOBODY: Final = 0  # Not the number of any node.


class Host(msgspec.Struct, frozen=True, kw_only=True):
    """A live node with the addresses of its doors. Unknown addresses are empty."""

    node: int
    kafka: str = ""
    sqs: str = ""
    http: str = ""
    peers: str = ""
    rack: str = ""
    is_front: bool = False  # It must never store messages,
    may_store_wings: bool = True  # and neither those of wings, if this is False.


class Leadership(Protocol):
    """Answers come from memory and can be slightly stale; the append checks again."""

    @property
    def node(self) -> int:
        """The number of this node."""

    def leads(self, shard: int) -> bool:
        """True if this node leads the shard and may serve it."""

    def leader_node(self, shard: int) -> int:
        """The leader of the shard; 0 without a leader, or while this node leads and doubts it."""

    def epoch(self, shard: int) -> int:
        """The epoch of that leader."""

    def replicas(self, shard: int) -> list[int]:
        """The replicas of the shard, the preferred leader first."""

    def in_sync(self, shard: int) -> list[int]:
        """The in-sync replicas of the shard."""

    def members(self) -> list[Host]:
        """The live nodes, by their numbers."""

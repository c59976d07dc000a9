"""Who leads what, as far as verbs and doors need to know: the port behind which a cluster stands.

A node on its own has none (`Hall.leadership` is None) and leads everything. In a cluster all shards are led together,
by one node at a time; the shard is asked for all the same, so that nobody else has to know that.
"""

from __future__ import annotations

from typing import Final, Protocol

import msgspec

NOBODY: Final = 0  # The number of no node.


class Host(msgspec.Struct, frozen=True, kw_only=True):
    """A live node of the hall, and where its doors are. Unknown addresses are empty."""

    node: int
    kafka: str = ""
    sqs: str = ""
    http: str = ""
    peers: str = ""
    rack: str = ""


class Leadership(Protocol):
    """Read from memory, never waited for; it may be a moment old, and the append knows better."""

    @property
    def node(self) -> int:
        """The number of this node."""

    def leads(self, shard: int) -> bool:
        """Whether this node leads the shard and may answer for it."""

    def leader_node(self, shard: int) -> int:
        """The node that leads the shard; 0 while nobody does, or while this one leads and has reason to doubt it."""

    def epoch(self, shard: int) -> int:
        """The epoch of that leader."""

    def replicas(self, shard: int) -> list[int]:
        """The nodes that keep the shard, the preferred leader first."""

    def in_sync(self, shard: int) -> list[int]:
        """Those of them that have everything that was acknowledged."""

    def members(self) -> list[Host]:
        """The live nodes, by their numbers."""

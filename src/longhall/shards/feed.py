"""The interface by which shards and the journal report to replication: every append, write and sync.

A single node has no feed. The entries of all shards of a node have one order, in which they were appended: the n-th
entry of the hall has the index n, which is the sum of the sequences of all shards. Entries that belong together (see
`Wal.hold`) are adjacent in it.
"""

from __future__ import annotations

from collections.abc import Callable

from mypy_extensions import mypyc_attr


@mypyc_attr(allow_interpreted_subclasses=True)
class Feed:
    """The interface that replication fulfils; it has no state of its own."""

    def entry(self, shard: int, sequence: int, head: bytes, body: bytes) -> None:
        """An entry is about to be appended, in one or two pieces. An exception prevents the append."""
        raise NotImplementedError

    def written(self, time_ms: int) -> None:
        """All entries reported so far are in the page cache."""
        raise NotImplementedError

    def begin(self) -> int:
        """A sync of everything written so far begins; the returned index is passed to `synced`."""
        raise NotImplementedError

    def synced(self, index: int) -> None:
        """Everything up to `index` is on the disk, unless it was truncated meanwhile."""
        raise NotImplementedError

    def damage_found(self, partition: int, offset: int, on_repaired: Callable[[], None]) -> bool:
        """A stored message cannot be read. True if another replica may have it: it is requested, and `on_repaired` is
        called when another read is worthwhile.
        """
        raise NotImplementedError

"""What a shard and a journal tell a replica: every entry that is appended, every write and every sync.

A node on its own has no feed, and nothing is told. The entries of all shards of a node have one order, that in which
they were appended: the n-th of them has the index n, counted since the hall began, which is the sum of what all shards
count. Entries that belong together (see `Wal.hold`) stand next to each other in it.
"""

from __future__ import annotations

from collections.abc import Callable

from mypy_extensions import mypyc_attr


@mypyc_attr(allow_interpreted_subclasses=True)
class Feed:
    """The interface that replication fulfils; it has no state of its own."""

    def entry(self, shard: int, sequence: int, head: bytes, body: bytes) -> None:
        """An entry is about to be appended, in one or two pieces. An exception keeps it out of the log."""
        raise NotImplementedError

    def written(self, time_ms: int) -> None:
        """Everything told so far is in the page cache."""
        raise NotImplementedError

    def begin(self) -> int:
        """A sync of everything written so far begins; what is returned comes back with `synced`."""
        raise NotImplementedError

    def synced(self, index: int) -> None:
        """Everything up to `index` is on the disk, unless it was cut off meanwhile."""
        raise NotImplementedError

    def damage_found(self, partition: int, offset: int, told: Callable[[], None]) -> bool:
        """A message that is kept here cannot be read. Whether somebody else may have it, who is asked: `told` hears
        when it is worth another try.
        """
        raise NotImplementedError

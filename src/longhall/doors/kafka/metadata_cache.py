"""What clients were told of topics, encoded as it was told: most answers tell of most topics what the last one did.

A client with ten thousand topics asks about all of them whenever it meets another one, many times in a row, and of each
topic the answer is the same until somebody else leads or keeps it. What is kept here is good for as long as all shards
are where they are; then everything is forgotten at once. Topics that wings keep are never in it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, final

from longhall.broker.partition import Partition

TOLD_BYTES_MAX: Final = 32 * 1024 * 1024
ENTRY_BYTES: Final = 300  # What keeping one takes besides what was told.


@final
class MetadataCache:
    """Of one door."""

    def __init__(self) -> None:
        self._placements: Sequence[object] = ()
        self._entries: dict[tuple[str, int], tuple[bytes, int, bytes]] = {}
        self._bytes = 0

    def look(self, placements: Sequence[object]) -> None:
        """This is where all shards are now; if any was elsewhere, everything is forgotten. To be called before the
        others, in the same turn of the loop.
        """
        if placements != self._placements:
            self._forget()
            self._placements = placements

    def of(self, topic: str, version: int, route: list[Partition]) -> bytes | None:
        """What was told of these partitions of the topic, in this version of the answer."""
        found = self._entries.get((topic, version))
        if found is None or found[0] != route[0].topic_id or found[1] != len(route):
            return None
        return found[2]

    def keep(self, topic: str, version: int, route: list[Partition], told: bytes) -> None:
        """This is told now."""
        if any(partition.elsewhere for partition in route):
            return
        before = self._entries.pop((topic, version), None)
        if before is not None:
            self._bytes -= len(before[2]) + ENTRY_BYTES
        self._bytes += len(told) + ENTRY_BYTES
        if self._bytes > TOLD_BYTES_MAX:
            self._forget()
            self._bytes = len(told) + ENTRY_BYTES
        self._entries[topic, version] = (route[0].topic_id, len(route), told)

    def _forget(self) -> None:
        self._entries.clear()
        self._bytes = 0

"""Encoded descriptions of topics in Metadata responses: most responses repeat what the last one said of a topic.

A client with ten thousand topics asks for all of them whenever it uses one more, many times in a row, and the
description of each topic stays the same until its leader or its replicas change. Entries are valid as long as all
shards are where they were; then the cache is emptied at once. Topics of other replication groups are never in it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, final

from longhall.broker.configuration import TopicOptions
from longhall.broker.partition import Partition

CACHE_BYTES_MAX: Final = 32 * 1024 * 1024
ENTRY_BYTES: Final = 300  # The memory of an entry besides the encoded description.


@final
class MetadataCache:
    """The cache of one door. `validate` runs before `get` and `put`, in the same turn of the loop."""

    def __init__(self) -> None:
        self._placements: Sequence[object] = ()
        self._entries: dict[tuple[str, int], tuple[TopicOptions, int, bytes]] = {}
        self._bytes = 0

    def validate(self, placements: Sequence[object]) -> None:
        """Drop everything unless all shards are where they were; `placements` is where they are now."""
        if placements != self._placements:
            self._clear()
            self._placements = placements

    def get(self, topic: str, version: int, route: list[Partition]) -> bytes | None:
        """The description of these partitions of the topic, in this version of the response."""
        found = self._entries.get((topic, version))
        if found is None or found[0] is not route[0].options or found[1] != len(route):
            return None
        return found[2]

    def put(self, topic: str, version: int, route: list[Partition], encoded: bytes) -> None:
        """Store a description. The cache is emptied first if it has no room for one more."""
        if any(partition.elsewhere for partition in route):
            return
        before = self._entries.pop((topic, version), None)
        if before is not None:
            self._bytes -= len(before[2]) + ENTRY_BYTES
        self._bytes += len(encoded) + ENTRY_BYTES
        if self._bytes > CACHE_BYTES_MAX:
            self._clear()
            self._bytes = len(encoded) + ENTRY_BYTES
        # The options are replaced by every change of the configuration, and with every other topic of the name.
        self._entries[topic, version] = (route[0].options, len(route), encoded)

    def _clear(self) -> None:
        self._entries.clear()
        self._bytes = 0

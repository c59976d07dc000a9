"""The order of seals that a process has read: a batch that was copied to another place of its partition is refused.

Seals of one process count up along the offsets of a partition. What was not read by this process is not compared.
"""

from __future__ import annotations

from typing import Final, final

from longhall.front.sealing.cipher import broken
from longhall.records.seal import Seal

PARTITIONS_MAX: Final = 10_000  # Of the memory of seals that were read,
PREFIXES_MAX: Final = 16  # with as many processes that sealed for each.


@final
class SealOrder:
    """By partition and process that sealed: the highest offset that was read, and the counter of its seal."""

    def __init__(self) -> None:
        self._seen: dict[tuple[bytes, int], dict[bytes, tuple[int, int]]] = {}

    def check(self, topic_id: bytes, partition: int, seal: Seal, offset: int) -> None:
        """Note a batch. SEAL_BROKEN if its counter does not fit its offset: it is a copy, or at a wrong place."""
        seen = self._seen.get((topic_id, partition))
        if seen is None:
            if len(self._seen) >= PARTITIONS_MAX:
                self._seen.clear()
            seen = self._seen[topic_id, partition] = {}
        last = seen.get(seal.prefix)
        if last is not None:
            last_offset, last_counter = last
            order = (offset > last_offset) - (offset < last_offset)
            if (seal.counter > last_counter) - (seal.counter < last_counter) != order:
                raise broken("a sealed batch is a copy of another one, or at another place than it was written")
            if order <= 0:
                return
        elif len(seen) >= PREFIXES_MAX:
            seen.clear()
        seen[seal.prefix] = (offset, seal.counter)

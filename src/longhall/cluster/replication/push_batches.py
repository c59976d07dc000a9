"""Push batches: the entries that a leader sends to its followers together.

A batch has the entries that were appended in one turn of the loop, or a part of them that is large enough. A follower
writes it as one frame, so entries that belong together stay together on every disk. The newest batches stay in memory,
within a bound, for followers that are a little behind; the others are served from the write-ahead log.
"""

from __future__ import annotations

from collections import deque
from typing import Final, final

from crc32c import crc32c

PIECE_BYTES_MIN: Final = 4096  # Pieces that are larger on average are sent without a copy.
PUSH_BATCH_BYTES: Final = 512 * 1024  # A batch is closed beyond this, where nothing that belongs together is cut.


@final
class PushBatch:
    """Entries from `first` to `last`."""

    def __init__(
        self, first: int, last: int, time_ms: int, pieces: list[bytes], size_bytes: int, reached: list[tuple[int, int]]
    ) -> None:
        # To join small pieces is cheaper than to pass each of them to the call; to copy large ones is not.
        self.pieces = [b"".join(pieces)] if size_bytes < PIECE_BYTES_MIN * len(pieces) else pieces
        self.first = first
        self.last = last
        self.time_ms = time_ms
        self.size_bytes = size_bytes
        self.reached = reached  # Shards that have entries in it, and the sequence of the last one of each.
        crc = 0
        for piece in self.pieces:
            crc = crc32c(piece, crc)
        self.crc = crc

    @property
    def entries(self) -> bytes:
        """All entries in one piece."""
        return b"".join(self.pieces)

    @property
    def count(self) -> int:
        """The number of entries."""
        return self.last - self.first + 1


@final
class PushBatcher:
    """Collects entries as they are appended."""

    def __init__(self) -> None:
        self.bytes = 0
        self._first = 0
        self._pieces: list[bytes] = []
        self._reached: dict[int, int] = {}

    def take(self, index: int, shard: int, sequence: int, head: bytes, body: bytes) -> None:
        """The next entry."""
        if not self._pieces:
            self._first = index
        self._pieces.append(head)
        self.bytes += len(head)
        if body:
            self._pieces.append(body)
            self.bytes += len(body)
        self._reached[shard] = sequence

    def close(self, last: int, time_ms: int) -> PushBatch | None:
        """The batch of the entries collected so far, up to `last`; None if there are none."""
        if not self._pieces:
            return None
        batch = PushBatch(self._first, last, time_ms, self._pieces, self.bytes, list(self._reached.items()))
        self._pieces = []
        self._reached = {}
        self.bytes = 0
        return batch


@final
class RecentBatches:
    """The newest batches in memory, by the index of their first entry."""

    def __init__(self, bytes_max: int) -> None:
        self._bytes_max = bytes_max
        self._bytes = 0
        self._order: deque[PushBatch] = deque()
        self._by_first: dict[int, PushBatch] = {}

    def add(self, batch: PushBatch) -> None:
        """The next batch."""
        self._order.append(batch)
        self._by_first[batch.first] = batch
        self._bytes += batch.size_bytes
        while self._bytes > self._bytes_max and len(self._order) > 1:
            oldest = self._order.popleft()
            del self._by_first[oldest.first]
            self._bytes -= oldest.size_bytes

    def beginning_at(self, index: int) -> PushBatch | None:
        """The batch that begins with this entry."""
        return self._by_first.get(index)

    @property
    def first(self) -> int:
        """The first entry in memory; 0 if there is none."""
        return self._order[0].first if self._order else 0

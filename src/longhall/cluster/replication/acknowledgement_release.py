"""Who is told when: what was appended, by batch, until everybody has it who must.

Senders wait on their shard for one host, a quorum or all (see `shards.shard`); how far each of them is, the leader
counts by index (`shards.leading`). Here the index becomes the sequence of each shard again.

Of a batch only its numbers are kept, not its entries: a commit may stall for long. How much waits for it, the backlog
of the hall counts.
"""

from __future__ import annotations

from collections import deque
from typing import final

from longhall.cluster.replication.push_batches import PushBatch
from longhall.shards.backlog import Backlog
from longhall.shards.shard import ALL, ONE, QUORUM, Shard


@final
class _Numbers:
    """What is to be told when everything up to `last` is kept."""

    __slots__ = ("count", "last", "reached", "size_bytes")

    def __init__(self, batch: PushBatch) -> None:
        self.last = batch.last
        self.count = batch.count
        self.size_bytes = batch.size_bytes
        self.reached = batch.reached


@final
class AcknowledgementRelease:
    """See the module."""

    def __init__(self, shards: list[Shard], backlog: Backlog) -> None:
        self._shards = shards
        self._backlog = backlog
        self._lines: dict[int, deque[_Numbers]] = {ONE: deque(), QUORUM: deque(), ALL: deque()}

    def add(self, batch: PushBatch) -> None:
        """The next one; nobody has it yet."""
        numbers = _Numbers(batch)
        for line in self._lines.values():
            line.append(numbers)
        self._backlog.add(batch.size_bytes, batch.count)

    def reach(self, one: int, quorum: int) -> None:
        """The leader has synced everything up to `one`, most of those in sync everything up to `quorum`."""
        for whom, index in ((ONE, one), (QUORUM, quorum)):
            line = self._lines[whom]
            while line and line[0].last <= index:
                for number, sequence in line.popleft().reached:
                    self._shards[number].reach(whom, sequence)

    def commit(self, index: int) -> None:
        """Everything up to `index` is committed."""
        line = self._lines[ALL]
        while line and line[0].last <= index:
            numbers = line.popleft()
            self._backlog.commit(numbers.size_bytes, numbers.count)
            for number, sequence in numbers.reached:
                self._shards[number].advance(sequence)

    @property
    def is_done(self) -> bool:
        """Whether everything is committed."""
        return not self._lines[ALL]

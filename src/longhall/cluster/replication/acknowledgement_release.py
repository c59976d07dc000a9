"""Acknowledgement on commit: the appended batches whose senders wait, until enough replicas have them.

A sender waits on its shard for one host, a quorum or all replicas in sync (see `shards.shard`). The leader counts by
index how far each of these is (`shards.commit_tracker`); here the index is translated back to the sequences of the
shards.

A batch is held as its numbers alone, without its entries, because a commit may stall for long. The backlog of the hall
counts the bytes that wait.
"""

from __future__ import annotations

from collections import deque
from typing import final

from longhall.cluster.replication.push_batches import PushBatch
from longhall.shards.backlog import Backlog
from longhall.shards.shard import ALL, ONE, QUORUM, Shard


@final
class _Numbers:
    """The numbers of one batch: the shards' sequences that are reached when everything up to `last` is."""

    __slots__ = ("count", "last", "reached", "size_bytes")

    def __init__(self, batch: PushBatch) -> None:
        self.last = batch.last
        self.count = batch.count
        self.size_bytes = batch.size_bytes
        self.reached = batch.reached


@final
class AcknowledgementRelease:
    """The batches of one leader that are not acknowledged yet, in one queue a level of acknowledgement."""

    def __init__(self, shards: list[Shard], backlog: Backlog) -> None:
        self._shards = shards
        self._backlog = backlog
        self._queues: dict[int, deque[_Numbers]] = {ONE: deque(), QUORUM: deque(), ALL: deque()}

    def add(self, batch: PushBatch) -> None:
        """The next batch; no replica has synced it yet."""
        numbers = _Numbers(batch)
        for queue in self._queues.values():
            queue.append(numbers)
        self._backlog.add(batch.size_bytes, batch.count)

    def reach(self, one: int, quorum: int) -> None:
        """The leader has synced everything up to `one`, a quorum of the in-sync set everything up to `quorum`."""
        for level, index in ((ONE, one), (QUORUM, quorum)):
            queue = self._queues[level]
            while queue and queue[0].last <= index:
                for number, sequence in queue.popleft().reached:
                    self._shards[number].reach(level, sequence)

    def commit(self, index: int) -> None:
        """Everything up to `index` is committed."""
        queue = self._queues[ALL]
        while queue and queue[0].last <= index:
            numbers = queue.popleft()
            self._backlog.commit(numbers.size_bytes, numbers.count)
            for number, sequence in numbers.reached:
                self._shards[number].advance(sequence)

    @property
    def is_done(self) -> bool:
        """True if everything is committed."""
        return not self._queues[ALL]

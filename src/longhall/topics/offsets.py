"""The offsets of one group: committed ones, and pending ones of open transactions.

Only `apply` changes the table. It knows nothing of members and does not decide who may commit.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, final

from longhall.topics.events import OffsetsCommitted, OffsetsDeleted, OffsetsPending, TransactionOffsetsEnded

# offset, leader epoch, metadata, committed at, order
Committed = tuple[int, int, str, int, int]
OffsetEvent = OffsetsCommitted | OffsetsPending | TransactionOffsetsEnded | OffsetsDeleted


@final
class OffsetTable:
    """Topic to partition to a tuple. The order number says which of two commits came later."""

    __slots__ = ("_committed", "_order", "_pending")

    def __init__(self) -> None:
        self._committed: dict[str, dict[int, Committed]] = {}
        self._pending: dict[int, dict[tuple[str, int], Committed]] = {}
        self._order = 0

    @property
    def is_empty(self) -> bool:
        return not self._committed and not self._pending

    @property
    def has_pending(self) -> bool:
        return bool(self._pending)

    def holds(self, producer_id: int) -> bool:
        """True if a transaction of this producer has pending offsets here."""
        return producer_id in self._pending

    def pending_metadata(self, producer_id: int) -> dict[tuple[str, int], str]:
        """The metadata of the pending offsets of this producer."""
        return {place: row[2] for place, row in self._pending.get(producer_id, {}).items()}

    def get(self, topic: str, partition: int) -> Committed | None:
        partitions = self._committed.get(topic)
        return None if partitions is None else partitions.get(partition)

    def all(self) -> Iterable[tuple[str, int, Committed]]:
        for topic, partitions in self._committed.items():
            for partition, committed in partitions.items():
                yield topic, partition, committed

    def unstable(self) -> set[tuple[str, int]]:
        """The partitions whose offset an open transaction may still change."""
        return {partition for rows in self._pending.values() for partition in rows}

    def apply(self, event: OffsetEvent) -> None:
        if isinstance(event, OffsetsCommitted):
            for topic, partition, offset, leader_epoch, metadata in event.offsets:
                self._order += 1
                row = (offset, leader_epoch, metadata, event.at_ms, self._order)
                self._committed.setdefault(topic, {})[partition] = row
        elif isinstance(event, OffsetsPending):
            held = self._pending.setdefault(event.producer_id, {})
            for topic, partition, offset, leader_epoch, metadata in event.offsets:
                self._order += 1
                held[topic, partition] = (offset, leader_epoch, metadata, event.at_ms, self._order)
        elif isinstance(event, TransactionOffsetsEnded):
            self._end(event)
        else:
            self._forget(event)

    def _end(self, event: TransactionOffsetsEnded) -> None:
        held = self._pending.pop(event.producer_id, {})
        if not event.committed:
            return
        for (topic, partition), row in held.items():
            known = self.get(topic, partition)
            if known is None or known[4] < row[4]:  # A later plain commit takes precedence.
                self._committed.setdefault(topic, {})[partition] = row

    def _forget(self, event: OffsetsDeleted) -> None:
        for topic, partition in event.partitions:
            rows = self._committed.get(topic)
            if rows is not None and rows.pop(partition, None) is not None and not rows:
                del self._committed[topic]
            if event.pending_too:
                for held in self._pending.values():
                    held.pop((topic, partition), None)

    def snapshot(self) -> list[Any]:
        committed = [[topic, partition, *row] for topic, partition, row in self.all()]
        pending = [
            [producer_id, [[topic, partition, *row] for (topic, partition), row in rows.items()]]
            for producer_id, rows in self._pending.items()
        ]
        return [self._order, committed, pending]

    def restore(self, state: list[Any]) -> None:
        self._order = state[0]
        self._committed = {}
        for topic, partition, *row in state[1]:
            self._committed.setdefault(topic, {})[partition] = _row(row)
        self._pending = {
            producer_id: {(topic, partition): _row(row) for topic, partition, *row in rows}
            for producer_id, rows in state[2]
        }


def _row(row: list[Any]) -> Committed:
    return (row[0], row[1], row[2], row[3], row[4])

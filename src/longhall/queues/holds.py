"""The holds of a queue: messages that transactions of other replication groups are about to settle.

A hold lasts from the moment at which the group promises the coordinator that the messages can be settled, until the
coordinator has told the outcome. Meanwhile the lease of a message ends neither by time nor by its consumer.

    decided by `Queue`             the messages
    Held                           stay with their consumer, whatever their deadlines
    Settled or Died, HoldsEnded    the transaction was committed
    HoldsEnded                     it was aborted: the leases have their deadlines again

A hold names the number of its lease. What a purge or a rewind has removed, or delivered again under another number, is
not held any more. `coordinator_epoch` is that of the newest coordinator that has sent a request. Requests of earlier
ones are refused: a delayed one would hold messages for a transaction that has ended.
"""

from __future__ import annotations

from typing import Any, Final, final

HELD_MAX: Final = 20_000  # Messages of one queue that transactions hold at the same time.


@final
class Hold:
    """What a commit does with a message: the number of its lease, whether it is rejected instead of settled, and
    whether its sender gets a delivery report (`reported`).
    """

    def __init__(self, number: int, reported: bool, rejected: bool) -> None:
        self.number = number
        self.reported = reported
        self.rejected = rejected


@final
class Holds:
    """The holds of one queue, by producer id, then by lane and offset."""

    def __init__(self) -> None:
        self.coordinator_epoch = -1
        self.count = 0
        self._by_producer: dict[int, dict[tuple[int, int], Hold]] = {}

    def of(self, producer_id: int) -> dict[tuple[int, int], Hold]:
        """The holds of one producer; a copy."""
        return dict(self._by_producer.get(producer_id, {}))

    def has(self, producer_id: int, lane: int, offset: int) -> bool:
        """True if a transaction of this producer holds the message."""
        return (lane, offset) in self._by_producer.get(producer_id, {})

    def add(self, producer_id: int, lane: int, offset: int, hold: Hold) -> None:
        held = self._by_producer.setdefault(producer_id, {})
        self.count += (lane, offset) not in held
        held[lane, offset] = hold

    def end(self, producer_id: int) -> dict[tuple[int, int], Hold]:
        """Forget the holds of a producer, and return them."""
        ended = self._by_producer.pop(producer_id, {})
        self.count -= len(ended)
        return ended

    def clear(self) -> None:
        """Forget all holds; the epoch stays."""
        self._by_producer.clear()
        self.count = 0

    def snapshot(self) -> list[Any]:
        """For `restore`; empty if no coordinator has ever asked."""
        if self.coordinator_epoch < 0:
            return []
        rows = [
            [producer_id, lane, offset, hold.number, hold.reported, hold.rejected]
            for producer_id, held in sorted(self._by_producer.items())
            for (lane, offset), hold in sorted(held.items())
        ]
        return [self.coordinator_epoch, rows]

    def restore(self, state: list[Any]) -> list[tuple[int, int, int]]:
        """Take the state of a `snapshot`. Returns lane, offset and lease number of each message."""
        self.clear()
        self.coordinator_epoch = state[0] if state else -1
        found: list[tuple[int, int, int]] = []
        for producer_id, lane, offset, number, reported, rejected in state[1] if state else []:
            self.add(producer_id, lane, offset, Hold(number, reported, rejected))
            found.append((lane, offset, number))
        return found

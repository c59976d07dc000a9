"""What a share member holds of a partition: the numbers of its leases, by offset.

The leases themselves are in the queue, durable and with their deadlines. A holding is in memory and says which of them
are this member's: the protocol names offsets, where other doors name receipts. A message that is delivered from the
lane of its priority level is held under the offset that it has in the partition.
"""

from __future__ import annotations

from typing import Final, final

from longhall.broker.queues.running_queue import RunningQueue
from longhall.queues.delivery_reports import wants_report
from longhall.queues.outcomes import Given
from longhall.records.record import Record

SETTLED: Final = 0  # The number of a message that its delivery has settled: at most once.
_CHECK_MIN: Final = 1024


@final
class Holding:
    """The leases of one member in one partition of one queue."""

    def __init__(self, queue_number: int, lane: int) -> None:
        self.queue_number = queue_number
        self.lane = lane
        self.numbers: dict[int, int] = {}
        self.copies: dict[int, tuple[int, int]] = {}  # Lane and offset of those that are leased in another lane.
        self.reported: set[int] = set()  # Messages whose senders asked what became of them.
        self._check_at = _CHECK_MIN

    def add(self, given: list[Given], is_kept: bool) -> None:
        """Add leased messages; `is_kept` is False if their delivery has settled them."""
        for one in given:
            self._add(one.candidate.offset, one, is_kept)

    def add_copy(self, offset: int, given: Given, is_kept: bool) -> None:
        """Add a message with this offset in the partition, of which a copy in another lane is leased."""
        self._add(offset, given, is_kept)
        self.copies[offset] = (given.lane, given.candidate.offset)

    def _add(self, offset: int, given: Given, is_kept: bool) -> None:
        self.numbers[offset] = given.number if is_kept else SETTLED
        record = given.candidate.payload
        if is_kept and isinstance(record, Record) and record.headers and wants_report(record):
            self.reported.add(offset)

    def place_of(self, offset: int) -> tuple[int, int]:
        """Lane and offset of the lease of a message."""
        return self.copies.get(offset) or (self.lane, offset)

    def drop(self, offset: int) -> None:
        """Forget a message."""
        self.numbers.pop(offset, None)
        self.copies.pop(offset, None)
        self.reported.discard(offset)

    def forget_lapsed(self, queue: RunningQueue, now_ms: int) -> None:
        """Forget leases that have ended, once there are many: their member never acknowledged them."""
        if len(self.numbers) < self._check_at:
            return
        for offset, number in list(self.numbers.items()):
            if number != SETTLED and not is_held(queue, *self.place_of(offset), number, now_ms):
                self.drop(offset)
        self._check_at = max(_CHECK_MIN, 2 * len(self.numbers))


def is_held(queue: RunningQueue, lane: int, offset: int, number: int, now_ms: int) -> bool:
    """True if this lease has not ended."""
    if lane not in queue.queue.state.lanes or not queue.queue.is_leased(lane, offset):
        return False
    lease = queue.queue.lease_of(lane, offset)
    return lease is not None and lease[0] == number and lease[1] > now_ms

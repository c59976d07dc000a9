"""Holds: messages that a transaction of another group is about to settle."""

from __future__ import annotations

from longhall.errors import Code
from longhall.queues.events import Held, HoldsEnded, LaneOpened, Leased, QueueEvent, Settled
from longhall.queues.holds import HELD_MAX
from longhall.queues.queue import Queue
from longhall.queues.settings import QueueSettings

LEASE_MS = 1_000
PRODUCER, OTHER = 7, 8


def leased(count: int = 2) -> tuple[Queue, list[tuple[int, int, int]]]:
    """A queue with leased messages, and their receipts."""
    queue = Queue(1, QueueSettings())
    queue.apply(LaneOpened(queue=1, lane=3))
    offsets = list(range(count))
    queue.apply(
        Leased(
            queue=1,
            lane=3,
            offsets=offsets,
            first_number=1,
            at_ms=0,
            deadline_ms=LEASE_MS,
            next_offset=count,
            sizes=[10] * count,
        )
    )
    return queue, [(3, offset, offset + 1) for offset in offsets]


def hold(queue: Queue, receipts: list[tuple[int, int, int]], producer: int = PRODUCER) -> list[Held] | Code:
    decided = queue.decide_hold(10, producer, 5, receipts)
    if not isinstance(decided, Code):
        apply(queue, *decided)
    return decided


def apply(queue: Queue, *events: QueueEvent) -> None:
    for event in events:
        queue.apply(event)


def test_a_held_lease_ends_neither_by_time_nor_by_its_consumer() -> None:
    queue, receipts = leased()
    assert isinstance(hold(queue, receipts[:1]), list)
    assert queue.decide_return(20, *receipts[0]) is Code.NOT_IN_FLIGHT
    assert queue.decide_extend(20, *receipts[0], 5_000) is Code.NOT_IN_FLIGHT
    assert queue.decide_unseen(20, *receipts[0]) is Code.NOT_IN_FLIGHT
    queue.tick(10 * LEASE_MS)
    assert (queue.in_flight, queue.available_again) == (1, 1)
    assert queue.is_held(3, 0)
    settled, codes = queue.decide_settle(10 * LEASE_MS, receipts[:1])
    assert codes == [None]
    apply(queue, *settled, HoldsEnded(queue=1, producer_id=PRODUCER, coordinator_epoch=5))
    assert queue.in_flight == 0
    assert queue.state.holds.count == 0


def test_an_aborted_hold_has_its_deadline_again() -> None:
    queue, receipts = leased()
    hold(queue, receipts)
    apply(queue, HoldsEnded(queue=1, producer_id=PRODUCER, coordinator_epoch=6))
    queue.tick(LEASE_MS - 1)
    assert queue.in_flight == 2
    queue.tick(LEASE_MS)
    assert (queue.in_flight, queue.available_again) == (0, 2)
    assert queue.state.holds.coordinator_epoch == 6


def test_what_has_left_its_consumer_or_another_transaction_has_is_not_held() -> None:
    queue, receipts = leased()
    assert isinstance(hold(queue, receipts[:1]), list)
    assert hold(queue, receipts[:1]) == []  # A repeat.
    assert hold(queue, receipts, OTHER) is Code.CONCURRENT_TRANSACTIONS
    queue.tick(LEASE_MS)
    assert queue.decide_hold(LEASE_MS, PRODUCER, 5, receipts[1:]) is Code.RECEIPT_SUPERSEDED
    apply(queue, Settled(queue=1, lane=3, offsets=[1], at_ms=20))
    assert queue.decide_hold(30, PRODUCER, 5, receipts[1:]) is Code.RECEIPT_SUPERSEDED
    queue, receipts = leased(HELD_MAX + 1)
    assert hold(queue, receipts) is Code.OVERLOADED


def test_a_snapshot_has_the_holds() -> None:
    queue, receipts = leased()
    assert "holds" not in queue.snapshot()
    hold(queue, receipts[:1])
    restored = Queue(1, QueueSettings())
    restored.restore(queue.snapshot())
    restored.tick(10 * LEASE_MS)
    assert (restored.in_flight, restored.is_held(3, 0)) == (1, True)
    assert restored.snapshot()["holds"] == queue.snapshot()["holds"]


def test_a_purge_ends_holds() -> None:
    queue, receipts = leased()
    hold(queue, receipts)
    purged = queue.decide_purge(50, [(3, 2)])
    assert not isinstance(purged, Code)
    apply(queue, purged, HoldsEnded(queue=1, producer_id=PRODUCER, coordinator_epoch=5))
    assert (queue.in_flight, queue.state.holds.count) == (0, 0)

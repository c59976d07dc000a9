"""What open transactions have in a queue: counted by lane and producer, and known again after a snapshot."""

from __future__ import annotations

from longhall.queues.uncommitted import UncommittedMessages


def test_each_transaction_ends_separately() -> None:
    undecided = UncommittedMessages()
    undecided.sent(1, 7, 2, 20)
    undecided.sent(1, 7, 1, 5)
    undecided.sent(2, 7, 4, 40)
    undecided.sent(1, 8, 3, 30)
    assert undecided.ended(1, 7) == (3, 25)
    assert undecided.ended(1, 7) == (0, 0)
    assert undecided.ended(2, 7) == (4, 40)
    assert len(undecided) == 1


def test_a_purged_lane_is_dropped() -> None:
    undecided = UncommittedMessages()
    undecided.sent(1, 7, 2, 20)
    undecided.sent(2, 7, 4, 40)
    undecided.forget(1)
    assert undecided.ended(1, 7) == (0, 0)
    assert undecided.ended(2, 7) == (4, 40)


def test_a_snapshot_round_trips() -> None:
    undecided, again = UncommittedMessages(), UncommittedMessages()
    undecided.sent(1, 7, 2, 20)
    undecided.sent(2, 9, 4, 40)
    again.restore(undecided.snapshot())
    assert again.snapshot() == undecided.snapshot() == [[1, 7, 2, 20], [2, 9, 4, 40]]

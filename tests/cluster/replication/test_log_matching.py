"""What a leader finds when it compares its log with a follower's."""

from __future__ import annotations

import pytest

from longhall.cluster.replication.log_matching import agree
from longhall.cluster.rpc.wire import Follow
from longhall.shards.replica import Replica, common_index, contains


def led(epochs: list[tuple[int, int]], index: int) -> Replica:
    replica = Replica(1)
    replica.epochs.restore(epochs)
    replica.index = replica.applied = replica.committed = index
    return replica


@pytest.mark.parametrize(
    ("epochs", "index", "committed", "common", "diverged"),
    [
        ([(1, 1), (3, 11)], 20, 20, 20, False),  # A little behind.
        ([(1, 1)], 15, 8, 10, False),  # A tail that nobody confirmed.
        ([(1, 1)], 15, 12, 10, True),  # A tail that was committed.
        ([(1, 1), (3, 9)], 20, 8, 8, False),  # Another epoch of the same number: it began elsewhere.
        ([(1, 1), (3, 9)], 20, 9, 8, True),
        ([], 0, 0, 0, False),  # An empty log.
        ([(2, 1)], 5, 1, 0, True),  # Nothing in common.
    ],
)
def test_epochs_are_compared_with_their_first_index(
    epochs: list[tuple[int, int]], index: int, committed: int, common: int, diverged: bool
) -> None:
    leader = led([(1, 1), (3, 11), (4, 31)], 40)
    follow = Follow(epoch=4, index=index, committed=committed, epochs=epochs)
    assert agree(leader, follow) == (common, diverged)


def test_after_an_unclean_election_every_longer_log_counts_as_diverged() -> None:
    leader = led([(1, 1), (1002, 11)], 12)
    follow = Follow(epoch=1002, index=30, committed=5, epochs=[(1, 1)])
    assert agree(leader, follow) == (10, False)
    assert agree(leader, follow, unclean_epoch=1002) == (10, True)
    later = Follow(epoch=1003, index=30, committed=5, epochs=[(1, 1), (1002, 11)])
    assert agree(leader, later, unclean_epoch=1002) == (12, False)


def test_a_log_that_has_forgotten_old_epochs_is_not_taken_for_another() -> None:
    remembered = [(5000, 900), (5001, 950)]
    assert common_index(remembered, 1000, [(3, 1)], 800) == 0
    assert contains(remembered, 1000, [(3, 1)], 800, 800)
    assert not contains(remembered, 1000, [(3, 1)], 920, 800)

"""The log of a replica: the common part with a leader's log is found from epochs alone, and commits are never cut."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from longhall.errors import Code, LonghallError
from longhall.log.frames import EVENT, Entry
from longhall.shards.replica import Replica, common_index, epoch_at
from tests.examples import examples

Log = list[int]  # The epoch of each entry. An epoch has one leader, so epoch and index identify an entry.


def entry(shard: int, sequence: int, epoch: int) -> Entry:
    return Entry(EVENT, 0, shard, sequence, epoch, b"\x04" + bytes(epoch))


def filled(log: Log) -> Replica:
    replica = Replica(1)
    for number, epoch in enumerate(log, 1):
        replica.take(entry(0, number, epoch), 0)
    return replica


def agree(one: Log, other: Log) -> int:
    """The length of the common prefix, by comparing every entry."""
    same = 0
    for left, right in zip(one, other, strict=False):
        if left != right:
            break
        same += 1
    return same


@st.composite
def histories(draw: st.DrawFn) -> tuple[Log, Log]:
    """The logs of two replicas after some elections: each leader starts from some log and copies to others."""
    logs: list[Log] = [[], [], []]
    for epoch in range(1, draw(st.integers(1, 8)) + 1):
        leader = draw(st.integers(0, 2))
        logs[leader] = [*logs[leader], *[epoch] * draw(st.integers(0, 4))]
        for other in range(3):
            if other != leader and draw(st.booleans()):
                kept = agree(logs[leader], logs[other])
                logs[other] = logs[leader][: draw(st.integers(kept, len(logs[leader])))]
    return logs[0], logs[1]


@given(histories())
@settings(max_examples=examples(400), deadline=None)
def test_the_common_prefix_is_found_from_the_epochs(logs: tuple[Log, Log]) -> None:
    leader, follower = (filled(log) for log in logs)
    common = common_index(leader.epochs.snapshot(), leader.index, follower.epochs.snapshot(), follower.index)
    assert common == agree(*logs)
    follower.truncate(common)
    assert follower.index == common
    assert follower.epoch == (logs[0][common - 1] if common else 0)
    assert follower.sequences == [common]
    for epoch in logs[0][common:]:  # After the truncation it takes the leader's entries.
        follower.take(entry(0, follower.index + 1, epoch), 0)
    assert follower.epochs.snapshot() == leader.epochs.snapshot()
    assert [epoch_at(follower, number) for number in range(1, follower.index + 1)] == logs[0]


def test_two_quick_failovers_leave_no_divergence() -> None:
    """The leader does not know the follower's last epoch, and the one before has other entries too."""
    follower, leader = [1, 1, 1, 2, 2], [1, 1, 3]
    assert common_index(filled(leader).epochs.snapshot(), 3, filled(follower).epochs.snapshot(), 5) == 2


def test_committed_or_applied_entries_are_never_truncated() -> None:
    replica = filled([1, 1, 1, 1])
    replica.commit(2)
    with pytest.raises(LonghallError) as caught:
        replica.truncate(1)
    assert caught.value.code is Code.STORAGE_DAMAGED
    assert replica.index == 4
    replica.truncate(2)
    assert (replica.index, replica.committed, len(replica.pending)) == (2, 2, 2)


def test_only_committed_entries_are_applied_in_order() -> None:
    replica = filled([1, 1, 2])
    assert replica.next_committed() is None
    replica.commit(2)
    applied = []
    while (found := replica.next_committed()) is not None:
        applied.append(found.sequence)
        replica.advance()
    assert applied == [1, 2]
    assert replica.applied == 2
    replica.commit(99)  # The leader may be ahead of this log.
    assert replica.committed == 3


def test_a_gap_is_damage_and_changes_nothing() -> None:
    replica = filled([1])
    for wrong in (entry(0, 3, 1), entry(0, 1, 1), entry(1, 1, 1), entry(0, 2, 0)):
        with pytest.raises(LonghallError) as caught:
            replica.take(wrong, 0)
        assert caught.value.code is Code.STORAGE_DAMAGED
    assert (replica.index, replica.sequences, len(replica.pending)) == (1, [1], 1)


def test_the_index_is_the_sum_of_the_shards_sequences() -> None:
    replica = Replica(3)
    for shard, sequence in ((0, 1), (2, 1), (2, 2), (1, 1), (2, 3)):
        replica.take(entry(shard, sequence, 1), 5)
    assert replica.index == sum(replica.sequences) == 5
    replica.truncate(2)
    assert replica.sequences == [1, 0, 1]


def test_a_snapshot_restores_everything() -> None:
    replica = filled([1, 1, 2, 4, 4])
    replica.commit(3)
    replica.advance()
    again = Replica(1)
    again.restore(replica.snapshot())
    assert again.snapshot() == replica.snapshot()
    assert again.pending_bytes == replica.pending_bytes == sum(len(found.body) for found, _ in again.pending)
    again.truncate(3)
    assert again.epoch == 2

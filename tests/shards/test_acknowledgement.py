"""When a waiting request is released: by one host, by a quorum, by all, and at the latest by the commit."""

from __future__ import annotations

from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from longhall.log.wal import FILE_BYTES_MIN, Wal
from longhall.shards.commit_tracker import CommitTracker
from longhall.shards.shard import ALL, ONE, QUORUM, Committable, Shard
from longhall.world.real.disk import RealDisk


class Waiter(Committable):
    def __init__(self) -> None:
        self.values: list[int] = []

    def committed(self, value: int) -> None:
        self.values.append(value)


def shard_at(sequence: int, directory: Path) -> Shard:
    """A shard with this many entries, none of which is written."""
    disk = RealDisk(str(directory))
    shard = Shard(1, Wal(disk, FILE_BYTES_MIN))
    for _ in range(sequence):
        shard.append_event(0, b"e")
    disk.close()
    return shard


def test_each_request_waits_for_its_level(tmp_path: Path) -> None:
    shard = shard_at(3, tmp_path)
    told = {whom: Waiter() for whom in (ONE, QUORUM, ALL)}
    for whom, target in told.items():
        shard.wait_for(whom, target, whom)
    assert shard.waiting == 3
    shard.reach(ONE, 3)
    assert [target.values for target in told.values()] == [[ONE], [], []]
    shard.reach(QUORUM, 2)
    assert told[QUORUM].values == []
    shard.reach(QUORUM, 3)
    assert [target.values for target in told.values()] == [[ONE], [QUORUM], []]
    shard.advance(3)
    assert [target.values for target in told.values()] == [[ONE], [QUORUM], [ALL]]
    assert shard.waiting == 0


def test_a_commit_releases_every_level(tmp_path: Path) -> None:
    shard = shard_at(2, tmp_path)
    told = Waiter()
    for whom in (ONE, QUORUM, ALL):
        shard.wait_for(whom, told, whom)
    shard.advance(2)
    assert sorted(told.values) == [ONE, QUORUM, ALL]
    for whom in (ONE, QUORUM, ALL):
        shard.wait_for(whom, told, 9)  # A request for a committed entry does not wait.
    assert told.values[3:] == [9, 9, 9]


def test_a_quorum_is_more_than_half_of_the_in_sync_set() -> None:
    state = CommitTracker(1, 7, frozenset({1, 2, 3}), 1, 0, 0, 0)
    state.synced_here(10)
    assert state.quorum == 0
    state.answered(3, 8)
    assert (state.quorum, state.committed) == (8, 0)
    state.answered(2, 4)
    assert (state.quorum, state.committed) == (8, 4)
    alone = CommitTracker(1, 7, frozenset({1}), 1, 0, 0, 0)
    alone.synced_here(5)
    assert alone.quorum == 5
    two = CommitTracker(1, 7, frozenset({1, 2}), 1, 0, 0, 0)
    two.synced_here(5)
    assert two.quorum == 0
    two.answered(2, 3)
    assert two.quorum == 3


def test_during_a_change_both_sets_need_their_quorum() -> None:
    state = CommitTracker(1, 7, frozenset({1, 2, 3}), 1, 0, 0, 0)
    state.ask(frozenset({1, 2}))
    state.synced_here(10)
    state.answered(3, 10)
    assert state.quorum == 0  # Two of three have it, but not two of the two.
    state.answered(2, 6)
    assert state.quorum == 6


@given(st.lists(st.tuples(st.integers(1, 4), st.integers(0, 50)), max_size=40))
def test_one_is_never_behind_quorum_and_quorum_never_behind_all(answers: list[tuple[int, int]]) -> None:
    state = CommitTracker(1, 7, frozenset({1, 2, 3, 4}), 1, 0, 0, 0)
    state.synced_here(1)  # Needed for any commit: before, a restart could forget the epoch.
    before = (0, 0)
    for node, index in answers:
        if node == 1:
            state.synced_here(index)
        else:
            state.answered(node, index)
        assert state.committed <= state.quorum
        kept = sorted([state.synced, *(follower.synced for follower in state.followers.values())], reverse=True)
        assert state.quorum == kept[2]
        assert (state.quorum, state.committed) >= before
        before = (state.quorum, state.committed)

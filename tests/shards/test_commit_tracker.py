"""The commit index of a leader: synced by every replica that could become the next leader."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from longhall.shards.commit_tracker import CommitTracker
from tests.examples import examples

LAG_MS = 3_000


def tracker_of(*others: int, index: int = 0, committed: int = 0) -> CommitTracker:
    return CommitTracker(1, 7, frozenset({1, *others}), 1, index, committed, 0)


def test_the_slowest_in_sync_replica_decides() -> None:
    state = tracker_of(2, 3)
    state.synced_here(10)
    assert state.committed == 0
    state.answered(2, 8)
    assert state.committed == 0
    state.answered(3, 5)
    assert state.committed == 5
    state.answered(3, 20)
    assert state.committed == 8
    state.answered(2, 20)
    assert state.committed == 10


def test_a_leader_without_followers_commits_with_its_own_sync() -> None:
    state = tracker_of()
    state.synced_here(4)
    assert state.committed == 4


def test_a_lagging_follower_counts_until_its_removal_is_recorded() -> None:
    state = tracker_of(2, 3)
    state.synced_here(10)
    state.mark(10, 1_000)
    state.answered(2, 10)
    assert state.wish(LAG_MS, 1_500) is None
    state.mark(10, 4_000)
    state.answered(2, 10)
    wish = state.wish(LAG_MS, 4_500)
    assert wish == frozenset({1, 2})
    state.ask(wish)
    assert state.committed == 0
    assert state.wish(LAG_MS, 4_600) == wish  # The outcome is unknown: the same set again.
    state.recorded(1, frozenset({1}))  # An old record does not decide it.
    assert state.asked == wish
    state.recorded(2, wish)
    assert state.committed == 10
    assert state.in_sync == frozenset({1, 2})


def test_a_follower_that_is_given_up_is_removed_at_once() -> None:
    state = tracker_of(2, 3)
    assert state.wish(LAG_MS, 10) is None
    state.give_up(3)
    assert state.wish(LAG_MS, 10) == frozenset({1, 2})
    state.met(3, 0, 20)
    state.mark(0, 30)
    state.answered(3, 0)
    assert state.wish(LAG_MS, 40) is None  # It came back before the coordinator was asked.


def test_only_replicas_may_join_the_in_sync_set() -> None:
    state = tracker_of(2, 3)
    state.recorded(2, frozenset({1, 2, 3}), frozenset({1, 2, 4}))
    assert state.wish(LAG_MS, 10) == frozenset({1, 2})
    state.recorded(3, frozenset({1, 2}), frozenset({1, 2, 4}))
    assert sorted(state.followers) == [2]  # Answers of the third no longer count.
    assert not state.may_follow(3)
    state.met(4, 0, 20)
    state.mark(0, 30)
    state.answered(4, 0)
    assert state.wish(LAG_MS, 40) == frozenset({1, 2, 4})


def test_a_joining_follower_counts_before_it_is_recorded() -> None:
    state = tracker_of(2)
    state.synced_here(10)
    state.answered(2, 10)
    assert state.committed == 10
    state.met(3, 4, 0)
    assert state.wish(LAG_MS, 100) is None
    state.mark(10, 200)
    state.answered(3, 10)
    wish = state.wish(LAG_MS, 300)
    assert wish == frozenset({1, 2, 3})
    state.ask(wish)
    state.synced_here(12)
    state.answered(2, 12)
    assert state.committed == 10
    state.recorded(2, wish)
    assert state.committed == 10
    state.answered(3, 11)
    assert state.committed == 11


def test_a_follower_that_may_lack_committed_entries_does_not_join() -> None:
    """A new leader has every committed entry but does not know which of its entries are committed."""
    state = tracker_of(index=150, committed=100)
    state.met(3, 120, 0)
    state.mark(120, 10)
    state.answered(3, 120)
    assert state.wish(LAG_MS, 20) is None
    state.mark(150, 30)
    state.answered(3, 150)
    assert state.wish(LAG_MS, 40) == frozenset({1, 3})


def test_silence_is_lag_even_without_new_entries() -> None:
    state = tracker_of(2)
    for now_ms in range(0, 5_000, 200):
        state.mark(0, now_ms)
    assert state.wish(LAG_MS, 5_000) == frozenset({1})


class Cluster(RuleBasedStateMachine):
    """A leader, three followers, and a coordinator whose answers may get lost and which may drop a node itself."""

    def __init__(self) -> None:
        super().__init__()
        self.now_ms = 0
        self.index = 5
        self.disks = {2: 5, 3: 5, 4: 0}
        self.record = (1, frozenset({1, 2, 3}))
        self.state = CommitTracker(1, 7, self.record[1], 1, 5, 5, 0)
        self.state.synced_here(5)
        for node in (2, 3):
            self.state.met(node, 5, 0)

    @rule(count=st.integers(1, 5))
    def append(self, count: int) -> None:
        self.index += count
        self.state.synced_here(self.index)

    @rule(node=st.sampled_from([2, 3, 4]), share=st.floats(0, 1))
    def answer(self, node: int, share: float) -> None:
        if node not in self.state.followers:
            self.state.met(node, self.disks[node], self.now_ms)
        self.disks[node] += int((self.index - self.disks[node]) * share + 0.5)
        self.state.answered(node, self.disks[node])

    @rule(passed_ms=st.sampled_from([200, 1_000, 4_000]))
    def tick(self, passed_ms: int) -> None:
        self.now_ms += passed_ms
        self.state.mark(self.index, self.now_ms)

    @rule(fate=st.sampled_from(["done", "lost before", "lost after"]))
    def change(self, fate: str) -> None:
        wish = self.state.wish(LAG_MS, self.now_ms)
        if wish is None:
            return
        self.state.ask(wish)
        if fate != "lost before" and self.record[0] == self.state.version:
            self.record = (self.record[0] + 1, wish)
        if fate == "done":
            self.state.recorded(*self.record)

    @rule(node=st.sampled_from([2, 3, 4]), reported=st.booleans())
    def drop(self, node: int, reported: bool) -> None:
        """A follower restarted, and the controller removes it from the in-sync set."""
        if node in self.record[1]:
            self.record = (self.record[0] + 1, self.record[1] - {node})
        if reported:
            self.state.recorded(*self.record)

    @rule()
    def look(self) -> None:
        self.state.recorded(*self.record)

    @invariant()
    def every_possible_leader_has_the_committed_entries(self) -> None:
        for member in self.record[1] - {1}:
            assert self.disks[member] >= self.state.committed
        assert self.state.committed <= self.index


TestCluster = Cluster.TestCase
TestCluster.settings = settings(max_examples=examples(150), stateful_step_count=40, deadline=None)


@given(st.lists(st.tuples(st.sampled_from([1, 2, 3]), st.integers(0, 30)), max_size=40))
@settings(deadline=None)
def test_committed_never_decreases(answers: list[tuple[int, int]]) -> None:
    state = tracker_of(2, 3)
    before = 0
    for node, index in answers:
        if node == 1:
            state.synced_here(index)
        else:
            state.answered(node, index)
        assert state.committed >= before
        before = state.committed

"""What the manager decides: nobody leads who may lack something, and nobody is waited for who is gone."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from longhall.cluster.membership.election import decide, may_campaign, should_resign
from longhall.coordination.ports import NOBODY, ShardState

NODES = st.sets(st.integers(1, 5))


@st.composite
def states(draw: st.DrawFn) -> ShardState:
    replicas = draw(st.lists(st.integers(1, 5), min_size=1, max_size=3, unique=True))
    in_sync = draw(st.lists(st.sampled_from(replicas), min_size=1, unique=True))
    leader = draw(st.sampled_from([NOBODY, *replicas]))
    return ShardState(shard=0, leader=leader, epoch=7, replicas=tuple(replicas), in_sync=tuple(in_sync), version=3)


@given(states(), NODES, NODES, NODES)
def test_whatever_is_decided_is_safe(state: ShardState, alive: set[int], suspects: set[int], unfit: set[int]) -> None:
    wanted = decide(state, alive, suspects, unfit)
    there = alive - suspects
    fit = set(state.in_sync) & there - unfit
    leader = state.leader if wanted is None else wanted.leader
    assert leader in fit or not fit
    if wanted is None:
        assert state.leader in there or not set(state.in_sync) & there
        return
    assert set(wanted.in_sync) <= set(state.in_sync)
    assert wanted.in_sync
    assert wanted.elects == (wanted.leader != state.leader)
    if wanted.elects:
        assert wanted.leader in set(state.in_sync) & there


def test_one_replica_that_was_not_stopped_cleanly_does_not_lead_alone() -> None:
    state = ShardState(shard=0, leader=NOBODY, epoch=7, replicas=(1, 2, 3), in_sync=(1, 2, 3), version=3)
    back = frozenset({2})
    assert decide(state, {2}, unfit=back, unclean=back, in_sync_min=2) is None
    both = frozenset({2, 3})
    wanted = decide(state, {2, 3}, unfit=both, unclean=both, in_sync_min=2)
    assert wanted is not None
    assert wanted.elects
    well = decide(state, {2, 3}, unfit=back, unclean=back, in_sync_min=2)
    assert well is not None
    assert well.leader == 3
    last = ShardState(shard=0, leader=NOBODY, epoch=7, replicas=(1, 2, 3), in_sync=(2,), version=3)
    alone = decide(last, {2}, unfit=back, unclean=back, in_sync_min=2)
    assert alone is not None  # The others were out of sync before: nobody else can have more.
    assert alone.leader == 2


@given(states(), NODES, NODES)
def test_it_comes_to_rest(state: ShardState, alive: set[int], unfit: set[int]) -> None:
    for _ in range(2):
        wanted = decide(state, alive, unfit=unfit)
        if wanted is None:
            return
        state = ShardState(
            shard=0,
            leader=wanted.leader,
            epoch=state.epoch + wanted.elects,
            replicas=state.replicas,
            in_sync=wanted.in_sync,
        )
    assert decide(state, alive, unfit=unfit) is None


def test_a_leader_that_is_unfit_leaves_it_to_one_that_is_not() -> None:
    state = ShardState(shard=0, leader=1, epoch=7, replicas=(1, 2, 3), in_sync=(1, 2, 3))
    wanted = decide(state, {1, 2, 3}, unfit={1, 2})
    assert wanted is not None
    assert (wanted.leader, wanted.in_sync, wanted.elects) == (3, (1, 2, 3), True)  # They have everything all the same.
    assert decide(state, {1, 2, 3}, unfit={1, 2, 3}) is None
    assert decide(state, {1, 2, 3}, unfit={2, 3}) is None


def test_the_first_replica_in_sync_that_lives_is_chosen() -> None:
    state = ShardState(shard=0, leader=1, epoch=7, replicas=(1, 2, 3), in_sync=(1, 3))
    wanted = decide(state, {1, 2, 3}, {1})
    assert wanted is not None
    assert (wanted.leader, wanted.in_sync, wanted.elects) == (3, (3,), True)
    assert decide(state, {2}) is None  # It lives, and lacks what 1 and 3 have.
    leaving = ShardState(shard=0, leader=1, epoch=7, replicas=(1, 2, 3), in_sync=(1, 2, 3), leaving=(2,))
    wanted = decide(leaving, {2, 3})
    assert wanted is not None
    assert (wanted.leader, wanted.in_sync) == (3, (2, 3))  # Rather one that stays.


def test_the_office_is_for_those_who_do_not_lead() -> None:
    def may(node: int, alive: set[int], manager: int = NOBODY, vacant_ms: int = 0) -> bool:
        return may_campaign(node, 1, alive, manager, vacant_ms, 3000)

    assert may(2, {1, 2})
    assert not may(2, {1, 2}, manager=3)
    assert not may(1, {1, 2})
    assert may(1, {1})
    assert may(1, {1, 2}, vacant_ms=3001)
    assert should_resign(1, 1, {1, 2})
    assert not should_resign(1, 1, {1})
    assert not should_resign(2, 1, {1, 2})

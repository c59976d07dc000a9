"""Hosts that come and go, step by step: a copy goes only when enough others have everything, and it always ends."""

from __future__ import annotations

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from longhall.cluster.membership.reassignment import ReassignmentGoals, leaving_of, next_step, successor
from longhall.coordination.ports import NOBODY, ShardState

NODES = st.sets(st.integers(1, 6))


def state_of(replicas: tuple[int, ...], in_sync: tuple[int, ...], leader: int = 0, **more: object) -> ShardState:
    leader = leader or in_sync[0]
    return msgspec.structs.replace(
        ShardState(shard=0, leader=leader, epoch=7, replicas=replicas, in_sync=in_sync, version=3), **more
    )


@st.composite
def states(draw: st.DrawFn) -> ShardState:
    replicas = draw(st.lists(st.integers(1, 6), min_size=1, max_size=5, unique=True))
    in_sync = draw(st.lists(st.sampled_from(replicas), min_size=1, unique=True))
    leaving = draw(st.lists(st.sampled_from(replicas), unique=True))
    leader = draw(st.sampled_from(in_sync))
    return state_of(tuple(replicas), tuple(in_sync), leader, leaving=tuple(leaving))


@given(states(), NODES, NODES, st.integers(1, 5), st.integers(1, 3))
def test_every_step_is_safe(state: ShardState, alive: set[int], drained: set[int], factor: int, least: int) -> None:
    racks = {node: str(node % 2) for node in alive}
    after = next_step(state, racks, ReassignmentGoals(factor, least, drained))
    if after is None:
        return
    assert (after.leader, after.epoch) == (state.leader, state.epoch)
    assert after.leader in after.replicas
    assert after.leader in after.in_sync
    assert set(after.in_sync) <= set(state.in_sync)  # Nobody is in sync by decree.
    gone = set(state.replicas) - set(after.replicas)
    assert gone <= leaving_of(state, drained)
    if gone & set(state.in_sync):
        assert len(after.in_sync) >= least
    new = set(after.replicas) - set(state.replicas)
    assert new <= alive - drained
    assert len(set(after.replicas) - leaving_of(state, drained)) <= max(factor, len(state.replicas))


@given(states(), NODES, NODES, st.integers(1, 5))
def test_it_comes_to_rest(state: ShardState, alive: set[int], drained: set[int], factor: int) -> None:
    """With hosts that catch up and a leader that hands over, whoever is to go is gone in the end."""
    alive = alive | {state.leader}
    racks = dict.fromkeys(alive, "")
    wishes = ReassignmentGoals(factor, 1, drained)
    for _ in range(20):
        after = next_step(state, racks, wishes)
        if after is None:
            in_sync = tuple(node for node in state.replicas if node in state.in_sync or node in alive)
            heir = successor(state, alive, drained) if state.leader in leaving_of(state, drained) else NOBODY
            after = msgspec.structs.replace(state, in_sync=in_sync, leader=heir or state.leader)
        if after == state:
            break
        state = after
    else:
        raise AssertionError("it never ends")
    left = leaving_of(state, drained)
    assert not left or not (set(state.replicas) & alive) - left  # Unless nobody else lives that could have it.


def test_a_copy_goes_when_its_replacement_has_everything() -> None:
    racks = {1: "", 2: "", 3: "", 4: ""}
    wishes = ReassignmentGoals(3, 2, {3})
    state = next_step(state_of((1, 2, 3), (1, 2, 3)), racks, wishes)
    assert state is not None
    assert (state.replicas, state.in_sync) == ((1, 2, 3, 4), (1, 2, 3))
    assert next_step(state, racks, wishes) is None
    state = next_step(msgspec.structs.replace(state, in_sync=(1, 2, 3, 4)), racks, wishes)
    assert state is not None
    assert (state.replicas, state.in_sync) == ((1, 2, 4), (1, 2, 4))
    assert next_step(state, racks, wishes) is None


def test_a_copy_goes_without_a_replacement_if_enough_are_left() -> None:
    racks = {1: "", 2: "", 3: ""}
    state = next_step(state_of((1, 2, 3), (1, 2, 3), leaving=(3,)), racks, ReassignmentGoals(3, 2))
    assert state is not None
    assert (state.replicas, state.in_sync, state.leaving) == ((1, 2), (1, 2), ())
    assert next_step(state_of((1, 2), (1, 2), leaving=(2,)), {1: "", 2: ""}, ReassignmentGoals(3, 2)) is None


def test_a_copy_that_is_lost_can_be_given_up() -> None:
    state = next_step(state_of((1, 2, 3), (1, 2)), {1: "", 2: "", 4: ""}, ReassignmentGoals(3, 2, {3}))
    assert state is not None
    assert state.replicas == (1, 2, 3, 4)
    state = next_step(
        msgspec.structs.replace(state, in_sync=(1, 2, 4)), {1: "", 2: "", 4: ""}, ReassignmentGoals(3, 2, {3})
    )
    assert state is not None
    assert state.replicas == (1, 2, 4)


def test_a_leader_stays_until_it_has_handed_over() -> None:
    state = state_of((1, 2, 3), (1, 2, 3))
    assert next_step(state, {1: "", 2: "", 3: ""}, ReassignmentGoals(3, 2, {1})) is None
    assert successor(state, {1, 2, 3}, {1}) == 2
    assert successor(state, {1, 3}, {1}) == 3
    assert successor(state, {1, 2, 3}, {1, 2}) == 3
    assert successor(msgspec.structs.replace(state, in_sync=(1,)), {1, 2, 3}, {1}) == NOBODY


def test_new_copies_go_to_racks_without_any() -> None:
    racks = {1: "a", 2: "a", 3: "a", 4: "b"}
    state = next_step(state_of((1,), (1,)), racks, ReassignmentGoals(2, 1))
    assert state is not None
    assert state.replicas == (1, 4)


def test_more_copies_than_the_factor_are_left_alone() -> None:
    assert (
        next_step(state_of((1, 2, 3, 4), (1, 2, 3, 4)), dict.fromkeys((1, 2, 3, 4), ""), ReassignmentGoals(3, 2))
        is None
    )

"""Liveness: from a state, faults end, all nodes run, and a fair schedule must reach a leader that serves.

One fair schedule is tried, not all: each round lets every node and the manager act, in a fixed order. No leader is
deposed without a reason, and no follower that answers is removed. If this schedule reaches no serving leader, the state
is a deadlock, or a livelock, of the protocol.
"""

from __future__ import annotations

from model.bounds import KINDS, Bounds, limits
from model.faults import start_steps
from model.membership import manager_steps, node_steps, recovery_steps
from model.replication import Step, follower_steps, leader_steps
from model.state import NOBODY, State

ROUNDS_MAX = 60


def serves(state: State) -> bool:
    """True if a leader that is on record has committed the entry that begins its epoch."""
    record = state.coordinator.record
    if record is None or record.leader == NOBODY:
        return False
    node = state.nodes[record.leader]
    office = node.office
    return node.up and office is not None and office.epoch == record.epoch and node.committed > office.begun


def heal(state: State, bounds: Bounds) -> list[Step]:
    """The steps of the schedule; the last state serves if the protocol is live."""
    calm = bounds._replace(limits=limits(drop=len(state.nodes)), epoch_max=1000)
    taken: list[Step] = []
    state = state._replace(spent=(0,) * len(KINDS))
    for _ in range(ROUNDS_MAX):
        if serves(state):
            return taken
        before = state
        for step in _round(state, calm):
            state = step[1]
            taken.append(step)
        if state == before:
            return taken
    return taken


def _round(state: State, bounds: Bounds) -> list[Step]:
    """One step of every kind of actor, if there is one."""
    taken: list[Step] = []

    def take(found: Step | None) -> bool:
        nonlocal state
        if found is None:
            return False
        taken.append(found)
        state = found[1]
        return True

    for _ in state.nodes:
        take(next(start_steps(state, bounds), None))
    for number in range(len(state.nodes)):
        for _ in range(12):
            node = state.nodes[number]
            if not node.up:
                break
            moved = take(next(node_steps(state, bounds, number), None))
            node = state.nodes[number]
            if node.office is not None:
                moved |= take(next(leader_steps(state, bounds, number), None))
            elif node.leader != NOBODY:
                moved |= take(next(follower_steps(state, bounds, number), None))
            if not moved:
                break
    take(next(recovery_steps(state, bounds), None)) or take(next(manager_steps(state, bounds), None))
    return taken

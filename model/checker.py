"""Breadth-first exploration of the model, with the invariants checked in every state."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import NamedTuple

from model.bounds import LIVENESS, Bounds, breaks
from model.faults import fault_steps, start_steps
from model.healing import heal, serves
from model.membership import manager_steps, node_steps, recovery_steps
from model.replication import Step, follower_steps, leader_steps
from model.state import NOBODY, Node, Office, State, describe


def steps(state: State, bounds: Bounds) -> Iterator[Step]:
    """Every transition that is possible in a state."""
    yield from calm_steps(state, bounds)
    yield from fault_steps(state, bounds)


def calm_steps(state: State, bounds: Bounds) -> Iterator[Step]:
    """Every transition that is no fault."""
    for number, node in enumerate(state.nodes):
        if not node.up:
            continue
        if node.office is not None:
            yield from leader_steps(state, bounds, number)
        elif node.leader != NOBODY:
            yield from follower_steps(state, bounds, number)
        yield from node_steps(state, bounds, number)
    yield from manager_steps(state, bounds)
    yield from recovery_steps(state, bounds)
    yield from start_steps(state, bounds)


def checked(state: State, bounds: Bounds) -> str:
    """The first invariant that a state breaks, as a sentence; empty if there is none."""
    if state.broken:
        return state.broken
    for number, node in enumerate(state.nodes):
        if node.office is not None:
            state = _check_leader(state, bounds, number, node, node.office)
        for index, (entry, _) in enumerate(state.truth[: node.committed]):
            if node.log[index] != entry:
                state = breaks(state, bounds, "I2", f"node {number + 1} knows another entry {index + 1} as committed")
        if node.agreed:
            leader = state.nodes[node.leader]
            leads = leader.office is not None and leader.office.epoch == node.epoch
            if leads and leader.log[: len(node.log)] != node.log:
                sentence = f"the log of node {number + 1} differs from that of leader {node.leader + 1}"
                state = breaks(state, bounds, "I8", f"{sentence}, with which it agreed")
    return state.broken


def _check_leader(state: State, bounds: Bounds, number: int, node: Node, office: Office) -> State:
    for index, (entry, epoch) in enumerate(state.truth):
        if epoch <= office.epoch and (index >= len(node.log) or node.log[index] != entry):
            lacks = f"entry {index + 1}, which was committed in epoch {epoch}"
            return breaks(state, bounds, "I1", f"node {number + 1} leads epoch {office.epoch} without {lacks}")
    return state


class Outcome(NamedTuple):
    """What a run has found. `complete` is True if every state was visited that can be reached."""

    states: int
    depth: int
    seconds: float
    complete: bool
    trace: list[Step]
    broken: str


def explore(start: State, bounds: Bounds, *, states_max: int = 1_000_000, depth_max: int = 1000) -> Outcome:
    """Visit every state that can be reached, nearest first, until an invariant is broken."""
    began = time.perf_counter()
    parents: dict[State, tuple[State, str] | None] = {start: None}
    frontier = [start]
    depth = 0
    trace: list[Step] = []
    broken = ""
    while frontier and depth < depth_max and len(parents) <= states_max and not broken:
        depth += 1
        following: list[State] = []
        for state, label, after in _successors(frontier, bounds):
            if after in parents:
                continue
            parents[after] = (state, label)
            following.append(after)
            broken = checked(after, bounds)
            more: list[Step] = []
            if not broken and LIVENESS & bounds.checks and len(parents) % bounds.heal_every == 0:
                broken, more = stuck(after, bounds)
            if broken:
                trace = _trace(parents, after) + more
                break
            if len(parents) > states_max:
                break
        frontier = following
    complete = not broken and not frontier
    return Outcome(len(parents), depth, time.perf_counter() - began, complete, trace, broken)


def stuck(state: State, bounds: Bounds) -> tuple[str, list[Step]]:
    """A sentence and the schedule that failed, if no leader serves after faults end; empty otherwise."""
    healed = heal(state, bounds)
    if serves(healed[-1][1] if healed else state):
        return "", []
    return "I5: no leader serves although all nodes run", [("faults end", state), *healed]


def _successors(frontier: list[State], bounds: Bounds) -> Iterator[tuple[State, str, State]]:
    for state in frontier:
        for label, after in steps(state, bounds):
            yield state, label, after


def _trace(parents: dict[State, tuple[State, str] | None], state: State) -> list[Step]:
    found: list[Step] = []
    at: State = state
    while (parent := parents[at]) is not None:
        found.append((parent[1], at))
        at = parent[0]
    found.append(("start", at))
    return found[::-1]


def render(outcome: Outcome, *, every_state: bool = False) -> list[str]:
    """A counterexample as numbered steps, with the state at the end."""
    lines = []
    for number, (label, state) in enumerate(outcome.trace):
        lines.append(f"{number:3} {label}")
        if every_state or number in (0, len(outcome.trace) - 1):
            lines.extend(f"      {line}" for line in describe(state))
    lines.append(f"    broken: {outcome.broken}")
    return lines

"""Breadth-first exploration of the model, with the invariants checked in every state."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import NamedTuple

from model.bounds import Bounds, breaks
from model.healing import heal, serves
from model.faults import fault_steps, start_steps
from model.membership import manager_steps, node_steps, recovery_steps
from model.replication import Step, follower_steps, leader_steps
from model.state import NOBODY, State, describe


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


def checked(state: State, bounds: Bounds) -> State:
    """The state, with the first invariant that it breaks."""
    if state.broken:
        return state
    for number, node in enumerate(state.nodes):
        office = node.office
        if office is not None:
            for index, (entry, epoch) in enumerate(state.truth):
                if epoch <= office.epoch and (index >= len(node.log) or node.log[index] != entry):
                    sentence = f"node {number + 1} leads epoch {office.epoch} without entry {index + 1}, which was committed in epoch {epoch}"
                    return breaks(state, bounds, "I1", sentence)
        for index in range(node.committed):
            if index >= len(state.truth) or node.log[index] != state.truth[index][0]:
                if len(state.truth) > index:
                    return breaks(state, bounds, "I2", f"node {number + 1} knows another entry {index + 1} as committed")
    return state


class Outcome(NamedTuple):
    """What a run has found."""

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
    number = 0
    complete = True
    while frontier and depth < depth_max:
        depth += 1
        following: list[State] = []
        for state in frontier:
            for label, after in steps(state, bounds):
                if after in parents:
                    continue
                parents[after] = (state, label)
                after_checked = checked(after, bounds)
                if after_checked.broken:
                    trace = _trace(parents, after)
                    return Outcome(len(parents), depth, time.perf_counter() - began, False, trace, after_checked.broken)
                if "I5" in bounds.checks and (number := number + 1) % bounds.heal_every == 0:
                    healed = heal(after, bounds)
                    if not serves(healed[-1][1] if healed else after):
                        trace = _trace(parents, after) + [("faults end", after), *healed]
                        return Outcome(len(parents), depth, time.perf_counter() - began, False, trace, "I5: no leader serves although all nodes run")
                following.append(after)
            if len(parents) > states_max:
                complete = False
                break
        frontier = following
        if not complete:
            break
    return Outcome(len(parents), depth, time.perf_counter() - began, complete and not frontier, [], "")


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

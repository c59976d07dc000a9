"""Random walks through the model, for bounds that are too large to explore: by seed, so that a finding repeats."""

from __future__ import annotations

import random
import time

from model.bounds import LIVENESS, Bounds
from model.checker import Outcome, calm_steps, checked, stuck
from model.faults import fault_steps
from model.replication import Step
from model.state import State


def walk(start: State, bounds: Bounds, *, seed: int, steps_max: int, fault_share: float = 0.15) -> Outcome:
    """One walk. Faults are taken with the given probability, where any are possible."""
    began = time.perf_counter()
    choice = random.Random(seed)
    trace: list[Step] = [("start", start)]
    state = start
    for number in range(steps_max):
        found = list(fault_steps(state, bounds)) if choice.random() < fault_share else []
        found = found or list(calm_steps(state, bounds)) or list(fault_steps(state, bounds))
        if not found:
            break
        step = choice.choice(found)
        state = step[1]
        trace.append(step)
        broken = checked(state, bounds)
        if broken:
            return Outcome(number, number, time.perf_counter() - began, False, trace, broken)
    broken, more = stuck(state, bounds) if LIVENESS & bounds.checks else ("", [])
    return Outcome(len(trace), len(trace), time.perf_counter() - began, False, trace + more if broken else [], broken)

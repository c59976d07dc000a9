"""The result of a scenario, and the type of scenarios."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any, NamedTuple

from simulation.scenarios.machine import Starter
from simulation.world import Simulation


class RunResult(NamedTuple):
    """The counts of a run, for the report; a failed run raises instead."""

    virtual_s: float
    sends: int
    acknowledged: int
    boots: int
    faults: int
    digest: str
    deliveries: int = 0
    settles: int = 0
    deaths: int = 0

    def counts(self) -> tuple[int, ...]:
        """The numbers that the report adds up."""
        return (
            self.sends,
            self.acknowledged,
            self.boots,
            self.faults,
            self.deliveries,
            self.settles,
            self.deaths,
        )


Scenario = Callable[[Simulation, Starter], Coroutine[Any, Any, RunResult]]

"""What every scenario gives back, and what it looks like from outside."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any, NamedTuple

from simulation.scenarios.machine import Starter
from simulation.world import Simulation


class RunResult(NamedTuple):
    """How a run went, for the report; that it went well is the absence of an exception."""

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
        """What can be summed up."""
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

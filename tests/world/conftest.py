"""Both worlds behind one fixture: a test holds for the real and the simulated disk and network."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterator
from pathlib import Path
from typing import Any

import pytest

from longhall.world.ports import World
from longhall.world.real import real_world
from simulation.world import Simulation

JOBS_MODULE = "tests.world.jobs"


class Bench:
    """A world, and a function that runs a coroutine in it."""

    def __init__(self, world: World, run: Callable[[Coroutine[Any, Any, Any]], Any]) -> None:
        self.world = world
        self.run = run


@pytest.fixture(params=["real", "simulated"])
def bench(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Bench]:
    if request.param == "real":
        world = real_world(str(tmp_path / "data"))
        yield Bench(world, asyncio.run)
        world.close()
    else:
        simulation = Simulation(7)
        simulated = simulation.host("node").boot()

        async def inside(coroutine: Coroutine[Any, Any, Any]) -> Any:
            return await simulated.process.start(coroutine)

        yield Bench(simulated, lambda coroutine: simulation.run(inside(coroutine)))
        assert simulation.loop.failures == []
        simulation.close()

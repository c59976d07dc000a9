"""A broker and its clients in virtual time."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator

import pytest

from longhall.client.hall import Hall
from simulation.world import SimulatedWorld, Simulation
from tests.client.scripted import HOST, PORT, ScriptedBroker

Scene = Callable[[ScriptedBroker, Hall, SimulatedWorld], Awaitable[None]]
Play = Callable[[Scene], float]


@pytest.fixture
def broker() -> ScriptedBroker:
    return ScriptedBroker()


@pytest.fixture
def play(broker: ScriptedBroker) -> Iterator[Play]:
    """Run a scene with a connected hall; returns how many virtual seconds it took."""
    simulation = Simulation(7)

    async def run(scene: Scene) -> None:
        await broker.open(simulation.host(HOST).boot().network)
        world = simulation.host("client").boot()
        hall = await Hall.connect(world.network, f"{HOST}:{PORT}")
        try:
            await scene(broker, hall, world)
        finally:
            hall.close()

    def start(scene: Scene) -> float:
        begun = simulation.loop.time()
        simulation.run(run(scene))
        return simulation.loop.time() - begun

    yield start
    simulation.close()

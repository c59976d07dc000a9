"""The sides of the coordinator behind one face: what holds for one must hold for the others.

A scenario is a coroutine function that is given a way to make coordinators of the same cluster; time is real for all
sides but the simulated one.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from pathlib import Path
from typing import Any, Protocol, TypeVar

from longhall.coordination.coordinator import TreeCoordinator
from longhall.coordination.embedded import EmbeddedStore, EmbeddedTree
from longhall.coordination.tree_client import worker_coordinator
from longhall.coordination.tree_server import serve_tree
from longhall.coordination.zookeeper import zookeeper_coordinator
from longhall.world.real.world import real_world
from simulation.world import Simulation
from simulation.zookeeper import SimulatedZooKeeper

WAIT_S = 60.0
T = TypeVar("T")
Make = Callable[[], Awaitable[TreeCoordinator]]
Scenario = Callable[[Make], Coroutine[Any, Any, None]]


class Side(Protocol):
    """Somewhere a scenario can run."""

    def run(self, scenario: Scenario) -> None: ...


class Embedded:
    """One machine."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def run(self, scenario: Scenario) -> None:
        world = real_world(str(self._directory))

        async def begin() -> None:
            store = EmbeddedStore(world.disk)
            await _with_coordinators(lambda: TreeCoordinator(EmbeddedTree(store)), scenario)

        try:
            asyncio.run(begin())
        finally:
            world.close()


class Workers:
    """One machine, and every coordinator a worker that is connected to the process that keeps the tree."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def run(self, scenario: Scenario) -> None:
        world = real_world(str(self._directory))

        async def begin() -> None:
            keeper = await serve_tree(EmbeddedStore(world.disk), world.network, world.entropy)
            try:
                await _with_coordinators(lambda: worker_coordinator(world.network, keeper.port, keeper.token), scenario)
            finally:
                keeper.close()

        try:
            asyncio.run(begin())
        finally:
            world.close()


class ZooKeeper:
    """A real one."""

    def __init__(self, url: str) -> None:
        self._url = url

    def run(self, scenario: Scenario) -> None:
        asyncio.run(_with_coordinators(lambda: zookeeper_coordinator(self._url), scenario))


class Simulated:
    """The model, without any fault."""

    def run(self, scenario: Scenario) -> None:
        simulation = Simulation(11)
        ensemble = SimulatedZooKeeper(simulation)
        try:
            simulation.run(_with_coordinators(lambda: ensemble.coordinator("test"), scenario))
            assert simulation.loop.failures == []
        finally:
            simulation.close()


async def _with_coordinators(new: Callable[[], TreeCoordinator], scenario: Scenario) -> None:
    made: list[TreeCoordinator] = []

    async def make() -> TreeCoordinator:
        coordinator = new()
        made.append(coordinator)
        await coordinator.start()
        return coordinator

    try:
        await scenario(make)
    finally:
        for coordinator in made:
            await coordinator.close()


async def eventually(holds: Callable[[], bool]) -> None:
    """Wait until something holds that others bring about."""
    async with asyncio.timeout(WAIT_S):
        while not holds():  # noqa: ASYNC110
            await asyncio.sleep(0.01)


async def until(read: Callable[[], Awaitable[T]], wanted: Callable[[T], bool]) -> T:
    """Read until the value is as wanted."""
    async with asyncio.timeout(WAIT_S):
        while not wanted(value := await read()):  # noqa: ASYNC110
            await asyncio.sleep(0.01)
        return value

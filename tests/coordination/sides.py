"""The implementations of the coordinator behind one interface: a scenario must hold for each.

A scenario is a coroutine function; its argument makes coordinators of the same cluster. Time is real for all sides but
the simulated one.
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
    """Runs scenarios over one implementation."""

    def run(self, scenario: Scenario) -> None: ...


class Embedded:
    """The embedded tree of one machine."""

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
    """The embedded tree of one machine, with every coordinator a worker connected to its server."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def run(self, scenario: Scenario) -> None:
        world = real_world(str(self._directory))

        async def begin() -> None:
            server = await serve_tree(EmbeddedStore(world.disk), world.network, world.entropy)
            try:
                await _with_coordinators(lambda: worker_coordinator(world.network, server.port, server.token), scenario)
            finally:
                server.close()

        try:
            asyncio.run(begin())
        finally:
            world.close()


class ZooKeeper:
    """A real ZooKeeper."""

    def __init__(self, url: str) -> None:
        self._url = url

    def run(self, scenario: Scenario) -> None:
        asyncio.run(_with_coordinators(lambda: zookeeper_coordinator(self._url), scenario))


class Simulated:
    """The simulated ZooKeeper, without faults."""

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
    """Wait until a condition holds."""
    async with asyncio.timeout(WAIT_S):
        while not holds():  # noqa: ASYNC110
            await asyncio.sleep(0.01)


async def until(read: Callable[[], Awaitable[T]], wanted: Callable[[T], bool]) -> T:
    """Read until the value satisfies a condition."""
    async with asyncio.timeout(WAIT_S):
        while not wanted(value := await read()):  # noqa: ASYNC110
            await asyncio.sleep(0.01)
        return value

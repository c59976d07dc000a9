"""The stage of a run: the hall on its premises, clients elsewhere, and the oracles that everybody reports to.

Actors are coroutines on the clients' host. They go on until `closing`; the first of them that raises ends the run,
and the exception is the verdict. Every actor has a random stream of its own, so that adding one does not change the
others.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Coroutine
from typing import Any, Final, final

from longhall.client.hall import Hall
from longhall.client.refusals import Refused, Unreachable
from longhall.world.ports import Network
from simulation.checkers.log import LogOracle
from simulation.checkers.topic_state import TopicOracle
from simulation.scenarios.machine import KAFKA_PORT, NODE, SQS_PORT, Deployment
from simulation.world import Simulation

CLIENTS: Final = "clients"
PATIENCE_MS: Final = 5_000
REST_S: Final = 60.0
COMPRESSIONS: Final = 5  # Of batches, the first of which is none.
LARGE_CHANCE: Final = 0.02  # How often a batch is large enough to bypass the write-ahead log.


@final
class RunContext:
    """See the module."""

    def __init__(self, simulation: Simulation, deployment: Deployment) -> None:
        self.simulation = simulation
        self.deployment = deployment
        self.log = LogOracle()
        self.topics = TopicOracle()
        self.closing = False
        self.large_chance = LARGE_CHANCE
        self.compressions = COMPRESSIONS
        self.addresses = [f"{NODE}:{KAFKA_PORT}"]  # Any of them will do,
        self.sqs_places = [(NODE, SQS_PORT)]  # and any of these.
        self._world = simulation.host(CLIENTS).boot()
        self._actors: list[asyncio.Task[None]] = []
        self._halls: list[Hall] = []
        self._connects = 0
        self._turns = 0

    def stream(self, name: str) -> random.Random:
        return self.simulation.stream(f"actor/{name}")

    @property
    def network(self) -> Network:
        """Of the clients' host."""
        return self._world.network

    def now_ms(self) -> int:
        """By the clients' clock, which is right."""
        return self._world.clock.wall_ms()

    def act(self, coroutine: Coroutine[Any, Any, None]) -> None:
        self._actors.append(self._world.process.start(coroutine))

    async def rest(self, seconds: float) -> None:
        """Let time pass, until everybody is asked to end."""
        loop = asyncio.get_running_loop()
        ends_at = loop.time() + seconds
        left_s = seconds
        while left_s > 0 and not self.closing:
            await asyncio.sleep(min(REST_S, left_s))
            left_s = ends_at - loop.time()

    async def on_clients(self, coroutine: Coroutine[Any, Any, Any]) -> Any:
        """Run something on the clients' host and wait for it."""
        return await self._world.process.start(coroutine)

    async def connect(self, name: str, patience_ms: int = PATIENCE_MS) -> Hall:
        """A client of its own for an actor, however long the node takes to answer."""
        while True:
            try:
                address = self.addresses[self._connects % len(self.addresses)]
                self._connects += 1
                hall = await Hall.connect(self._world.network, address, client_id=name, patience_ms=patience_ms)
                self._halls.append(hall)
                return hall
            except (Refused, Unreachable):
                await asyncio.sleep(0.2)

    def next_turn(self) -> int:
        """For clients that go from node to node: each begins at another one."""
        self._turns += 1
        return self._turns

    async def watch(self, seconds: float) -> None:
        """Let time pass. Raises what an actor, the premises or the loop raised meanwhile."""
        tasks = [*self._actors, *self.deployment.tasks]
        done: set[asyncio.Task[None]] = set()
        if tasks:
            done, _ = await asyncio.wait(tasks, timeout=seconds, return_when=asyncio.FIRST_EXCEPTION)
        else:
            await asyncio.sleep(seconds)
        for task in tasks:  # In the order they were started, since `done` has none.
            if task in done and task.exception() is not None:
                task.result()
        self.check_failures()

    def check_failures(self) -> None:
        """Nothing in a node may fail without somebody handling it."""
        failures = [*self.simulation.loop.failures, *self.simulation.loop.unheard()]
        if failures:
            raise AssertionError(f"nobody handled this:\n{failures[0]}")

    async def close_actors(self, seconds: float) -> None:
        """Ask everybody to end; they must within this time, since everything is healed by then."""
        self.closing = True
        if self._actors:
            _, pending = await asyncio.wait(self._actors, timeout=seconds)
            await self.watch(0.001)
            if pending:
                raise AssertionError(f"{len(pending)} actors still wait after {seconds} s: {pending!r:.600}")

    def close(self) -> None:
        for hall in self._halls:
            hall.close()

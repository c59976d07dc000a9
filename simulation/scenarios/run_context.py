"""The context of a run: the hall's deployment, the clients' host, and the oracles that actors report to.

Actors are coroutines on the clients' host. They run until `closing`; the first one that raises ends the run with its
exception. Every actor has a random stream of its own, so that a new actor does not change the others.
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
COMPRESSIONS: Final = 5  # Of batches; the first is no compression.
LARGE_CHANCE: Final = 0.02  # Probability that a batch is large enough to bypass the write-ahead log.


@final
class RunContext:
    """What the actors of a run share: addresses, clock, random streams, oracles, and the signal to end."""

    def __init__(self, simulation: Simulation, deployment: Deployment) -> None:
        self.simulation = simulation
        self.deployment = deployment
        self.log = LogOracle()
        self.topics = TopicOracle()
        self.closing = False
        self.large_chance = LARGE_CHANCE
        self.compressions = COMPRESSIONS
        self.addresses = [f"{NODE}:{KAFKA_PORT}"]  # Clients use any of them,
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
        """The network of the clients' host."""
        return self._world.network

    def now_ms(self) -> int:
        """The clients' clock, which is always right."""
        return self._world.clock.wall_ms()

    def act(self, coroutine: Coroutine[Any, Any, None]) -> None:
        self._actors.append(self._world.process.start(coroutine))

    async def rest(self, seconds: float) -> None:
        """Let time pass, until the actors are asked to end."""
        loop = asyncio.get_running_loop()
        ends_at = loop.time() + seconds
        left_s = seconds
        while left_s > 0 and not self.closing:
            await asyncio.sleep(min(REST_S, left_s))
            left_s = ends_at - loop.time()

    async def on_clients(self, coroutine: Coroutine[Any, Any, Any]) -> Any:
        """Run a coroutine on the clients' host and wait for it."""
        return await self._world.process.start(coroutine)

    async def connect(self, name: str, patience_ms: int = PATIENCE_MS) -> Hall:
        """Connect a new client for an actor, however long the node takes to answer."""
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
        """The first node of a client that takes nodes in turn: each client starts at another one."""
        self._turns += 1
        return self._turns

    async def watch(self, seconds: float) -> None:
        """Let time pass. Raises what an actor, the deployment or the loop raised meanwhile."""
        tasks = [*self._actors, *self.deployment.tasks]
        done: set[asyncio.Task[None]] = set()
        if tasks:
            done, _ = await asyncio.wait(tasks, timeout=seconds, return_when=asyncio.FIRST_EXCEPTION)
        else:
            await asyncio.sleep(seconds)
        for task in tasks:  # In the order of their start, since `done` is a set.
            if task in done and task.exception() is not None:
                task.result()
        self.check_failures()

    def check_failures(self) -> None:
        """Raise a Violation if an exception in a node was not handled."""
        failures = [*self.simulation.loop.failures, *self.simulation.loop.unheard()]
        if failures:
            raise AssertionError(f"unhandled exception:\n{failures[0]}")

    async def close_actors(self, seconds: float) -> None:
        """Ask all actors to end; they must end within this time, since everything is healed."""
        self.closing = True
        if self._actors:
            _, pending = await asyncio.wait(self._actors, timeout=seconds)
            await self.watch(0.001)
            if pending:
                raise AssertionError(f"{len(pending)} actors have not ended after {seconds} s: {pending!r:.600}")

    def close(self) -> None:
        for hall in self._halls:
            hall.close()

"""The machine of a single node, with a supervisor that restarts the node whenever it has ended.

A node may end by itself: after a failed sync it must, and on a full disk or one that fails to read it may fail to
start. It may only end with an OSError, or a ReplicaFailed for one: any other exception is a bug and ends the run.
"""

from __future__ import annotations

import asyncio
import logging
import random
import traceback
from collections.abc import Awaitable, Callable
from typing import Final, Protocol, final

from longhall.broker.apply import ReplicaFailed
from longhall.broker.queues.service import QueueService
from longhall.log.background_jobs import BACKGROUND_JOBS
from simulation.checkers.violation import Violation
from simulation.loop import PowerCut, Process
from simulation.world import SimulatedWorld, Simulation

NODE: Final = "node"
NODE_LOGGER: Final = "longhall.node"
SCRUB_LOGGER: Final = "longhall.scrub"
KAFKA_PORT: Final = 9092
SQS_PORT: Final = 9324
AMQP_PORT: Final = 5672
STOMP_PORT: Final = 61613
STOMP_WEBSOCKET_PORT: Final = 15674
MANAGEMENT_PORT: Final = 15672
PROMETHEUS_PORT: Final = 15692
LOOK_S: Final = 0.05
STOP_S: Final = 60.0


@final
class DamageReports(logging.Handler):
    """Collects the node's log lines about damage: where nothing was damaged, such a line is a violation."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.sentences: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        if "damage" in record.getMessage():
            self.sentences.append(record.getMessage())

    def __enter__(self) -> DamageReports:
        for name in (NODE_LOGGER, SCRUB_LOGGER):
            logging.getLogger(name).addHandler(self)
        return self

    def __exit__(self, *_: object) -> None:
        for name in (NODE_LOGGER, SCRUB_LOGGER):
            logging.getLogger(name).removeHandler(self)


class Running(Protocol):
    """A running node."""

    @property
    def desk(self) -> QueueService:
        """The verbs of queues, for what no door offers."""

    async def failed(self) -> None:
        """Wait until the node ends by itself."""

    async def stop(self) -> None:
        """Drain and stop cleanly."""


Starter = Callable[[SimulatedWorld], Awaitable[Running]]


class Deployment(Protocol):
    """The node or nodes of a hall, as clients and final checks need them."""

    tasks: list[asyncio.Task[None]]

    def inside(self) -> tuple[Process, QueueService] | None:
        """The process that serves, and its desk, which is to be asked in that process only. None if nobody does."""

    async def up(self, seconds: float) -> None:
        """Wait at most so long until the hall is healthy."""

    def cut_power(self) -> None:
        """Cut the power of all hosts at once."""

    @property
    def boots(self) -> int:
        """Number of node starts."""


@final
class Machine:
    """A host with one node and its supervisor."""

    def __init__(self, simulation: Simulation, starter: Starter) -> None:
        self.host = simulation.host(NODE)
        self.tasks: list[asyncio.Task[None]] = []
        self._simulation = simulation
        self._starter = starter
        self._chance: random.Random = simulation.stream("machine")
        self._running: Running | None = None
        self._stopping = False

    def start(self) -> None:
        self.tasks.append(asyncio.ensure_future(self._supervise()))

    def inside(self) -> tuple[Process, QueueService] | None:
        process, running = self.host.process, self._running
        if running is None or process is None or not process.alive:
            return None
        return process, running.desk

    def cut_power(self) -> None:
        self.host.cut_power()

    @property
    def boots(self) -> int:
        return self.host.boots

    async def up(self, seconds: float) -> None:
        """Wait for a node that is ready."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + seconds
        while not self._is_up():
            for task in self.tasks:
                if task.done():
                    task.result()
            if loop.time() > deadline:
                raise Violation(f"no fault is active any more, and the node is not up after {seconds} s")
            await asyncio.sleep(LOOK_S)

    async def stop(self) -> None:
        """Stop the node cleanly, if it is up; the supervisor starts it again."""
        process = self.host.process
        running = self._running
        if not self._is_up() or process is None or running is None:
            return
        self._stopping = True
        try:
            stopping = process.start(running.stop())
            await asyncio.wait([stopping], timeout=STOP_S)
            if process.alive and not stopping.done():
                raise Violation(f"a clean stop took more than {STOP_S} s")
            if stopping.done() and not _may_end_with(stopping.exception()):
                stopping.result()
            self.host.kill()
        finally:
            self._stopping = False

    def _is_up(self) -> bool:
        process = self.host.process
        return self._running is not None and process is not None and process.alive

    async def _supervise(self) -> None:
        while True:
            self._running = None
            world = self.host.boot(BACKGROUND_JOBS)
            life = world.process.start(self._live(world))
            await asyncio.wait([life, world.process.ended], return_when=asyncio.FIRST_COMPLETED)
            if self._stopping:
                await world.process.ended
            self.host.kill()
            self._running = None
            if life.done():
                self._simulation.trace.note("node ended:", _story(life.exception()))
                if not _may_end_with(life.exception()):
                    life.result()
            await asyncio.sleep(self._chance.choice((0.05, 0.2, 1.0)))

    async def _live(self, world: SimulatedWorld) -> None:
        running = await self._starter(world)
        self._running = running
        await running.failed()


def _may_end_with(error: BaseException | None) -> bool:
    """True if the machine may end a node with this: the disk failed, or the power was cut."""
    return isinstance(error, PowerCut | OSError | None) or (isinstance(error, ReplicaFailed) and error.is_io)


def _story(error: BaseException | None) -> str:
    """The exception and its last few calls, in one line."""
    if error is None:
        return "it gave up"
    frames = traceback.extract_tb(error.__traceback__)[-5:]
    return f"{error!r} in " + ", ".join(f"{frame.name}:{frame.lineno}" for frame in frames)

"""Scenarios of sealed queues: what was sealed before a crash opens after it, and no byte of a body is on the disk.

sealed      sealed queues of both kinds under crashes: retries, delays, dead letters in a clear queue, and rotations
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Final, final

import msgspec

from longhall.broker.queues.service import QueueService
from longhall.front.identity import NODE_ITSELF
from longhall.node.assembly import Node
from longhall.service.seal_operations import RotateDataKey
from simulation.checkers.queues import QueueOracle
from simulation.checkers.violation import demand
from simulation.scenarios.consumers import BAD, Habits
from simulation.scenarios.in_process_client import ask_inside
from simulation.scenarios.machine import Machine, Running, Starter
from simulation.scenarios.nemesis import Nemesis
from simulation.scenarios.node import settings_for, start_with
from simulation.scenarios.queue_laws import MASTER_KEY, SEALED, SEALED_DEAD, SEALED_LINES
from simulation.scenarios.queue_run import QueueRun
from simulation.scenarios.queues import CRASHES, FAULTS_S
from simulation.scenarios.run_context import RunContext
from simulation.scenarios.run_result import RunResult, Scenario
from simulation.scenarios.sqs_client import SqsRefusal, Unanswered
from simulation.world import SimulatedWorld, Simulation

ROTATION_S: Final = 12.0
# With this every body for the queue begins. Those of FIFO queues are the deduplication ids too, which stay readable.
CLEAR: Final = f"sender-{SEALED.name}-".encode()
KEYS: Final = """
[providers.disk]
kind = "file"
path = "{path}"

[keys]
{name} = {{ provider = "disk" }}
"""


@final
class SealedNodes:
    """Starts nodes with master keys, which are in a file outside the simulation, as in a key service."""

    def __init__(self, home: Path) -> None:
        masters, self._file = home / "masters", home / "keys.toml"
        for file, text in (
            (masters, f"{MASTER_KEY} = {'5a' * 32}\n"),
            (self._file, KEYS.format(path=masters, name=MASTER_KEY)),
        ):
            file.touch(mode=0o600)
            file.write_text(text)
        self.newest: Node | None = None

    async def start(self, world: SimulatedWorld) -> Running:
        """A `Starter`."""
        settings = msgspec.structs.replace(settings_for(world), keys=str(self._file))
        running, self.newest = await start_with(world, settings)
        return running


async def rotate_now_and_then(context: RunContext, nodes: SealedNodes) -> None:
    """Give a sealed queue a new data key, until the run ends."""
    chance = context.stream("rotation")
    while not context.closing:
        await context.rest(chance.expovariate(1 / ROTATION_S))
        name = chance.choice((SEALED.name, SEALED_LINES.name))

        async def rotate(desk: QueueService, name: str = name) -> None:
            assert nodes.newest is not None
            await nodes.newest.service.call(RotateDataKey(name), NODE_ITSELF)

        try:
            await ask_inside(context.deployment, rotate)
        except (SqsRefusal, Unanswered):
            continue  # The next one.


async def sealed(simulation: Simulation, starter: Starter) -> RunResult:
    with tempfile.TemporaryDirectory(prefix="longhall-sealed-") as home:
        nodes = SealedNodes(Path(home))
        machine = Machine(simulation, nodes.start)
        context = RunContext(simulation, machine)
        machine.start()
        oracle = QueueOracle([SEALED, SEALED_DEAD, SEALED_LINES])
        run = QueueRun(context, Nemesis(simulation, machine, [*CRASHES, "kill_twice", "stop_cleanly"]), oracle)
        await run.begin()
        run.send(SEALED, 0.6, 0.3)
        run.consume(SEALED, 3, 0.5, BAD)
        run.consume(SEALED_DEAD, 1, 2.0, Habits(settle=0.5))
        run.send_in_lines(SEALED_LINES, 2, 0.6)
        run.consume(SEALED_LINES, 3, 0.3)
        context.act(rotate_now_and_then(context, nodes))
        played = await run.end(FAULTS_S, 5.0)
        for path, inode in machine.host.platter.inodes():
            demand(CLEAR not in inode.content, f"{path} has a body in clear")
        return played


SEALED_SCENARIOS: Final[dict[str, Scenario]] = {"sealed": sealed}

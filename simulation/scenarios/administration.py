"""Administrators who change the directory at the doors of three nodes, while leaders die and links break."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final, final

from longhall.client.hall import Hall
from longhall.client.refusals import Refused, Unreachable
from longhall.errors import LonghallError
from longhall.service.directory_operations import AddUser
from simulation.checkers.violation import demand
from simulation.replicas.fault_menus import LEADERS
from simulation.scenarios.cluster_run import ClusterRun
from simulation.scenarios.run_context import RunContext
from simulation.scenarios.run_result import RunResult
from simulation.world import Simulation

PAUSE_S: Final = 0.3
READY_S: Final = 20.0
RUN_S: Final = 6.0
ADMINISTRATORS: Final = 2

Change = Callable[[Hall, str, bool], Awaitable[bool]]  # Adds, or removes, what this user has; True if it was done.


@final
class KnownUsers:
    """What each user may have, as far as an administrator can know: it is there, gone, or either of both."""

    def __init__(self, change: Change) -> None:
        self.acknowledged = 0
        self.removed = 0
        self._change = change
        self._may_exist: dict[str, bool] = {}
        self._may_lack: dict[str, bool] = {}

    async def change(self, hall: Hall, user: str, *, removal: bool) -> bool:
        """True if the change was acknowledged; otherwise it may have happened or not."""
        self._may_lack[user] = True
        if not removal:
            self._may_exist[user] = True
        try:
            if not await self._change(hall, user, removal):
                return False
        except (Refused, Unreachable, LonghallError):
            return False
        self.acknowledged += 1
        self.removed += removal
        self._may_exist[user], self._may_lack[user] = not removal, removal
        return True

    def certain(self) -> list[str]:
        """The users who have it for certain."""
        return [user for user, lacks in self._may_lack.items() if not lacks]

    def possible(self) -> list[str]:
        """The users who may have it."""
        return [user for user, exists in self._may_exist.items() if exists]

    def check(self, node: str, has: Callable[[str], bool]) -> None:
        """Compare with a node that has everything."""
        for user, may_exist in self._may_exist.items():
            found = has(user)
            demand(found or self._may_lack[user], f"what {user} got was acknowledged, and {node} lacks it")
            demand(not found or may_exist, f"what {user} had was removed, and {node} has it")


async def begin_administration(simulation: Simulation, known: KnownUsers, removal_chance: float) -> ClusterRun:
    """Start a cluster, writers, and administrators, who need a user `root` to log in."""
    run = ClusterRun(simulation, LEADERS)
    places = await run.begin(1)
    leading = run.cluster.serving()
    assert leading is not None
    process, node = leading

    async def add_root() -> None:
        await node.service.dispatch(AddUser("root", administrator=True))

    await process.start(add_root())
    run.write(places, plain=0, idempotent=1, transactional=0, pause_s=1.0)
    for number in range(ADMINISTRATORS):
        run.context.act(_administrate(run.context, known, f"administrator-{number}", removal_chance))
    return run


async def end_administration(run: ClusterRun) -> RunResult:
    """Let faults happen for a while, and wait until all nodes have everything."""
    played = await run.end(RUN_S)
    await run.cluster.up(READY_S)
    await asyncio.sleep(1)
    return played


async def _administrate(context: RunContext, known: KnownUsers, name: str, removal_chance: float) -> None:
    """Change users, each once, and take it back from some of them, until the run ends."""
    chance = context.stream(name)
    hall: Hall | None = None
    number = 0
    while not context.closing:
        hall = hall or await context.connect(name)
        number += 1
        certain = [user for user in known.certain() if user.startswith(name)]
        removal = bool(certain) and chance.random() < removal_chance
        user = chance.choice(certain) if removal else f"{name}-{number}"
        if not await known.change(hall, user, removal=removal):
            hall.close()
            hall = None
        await context.rest(chance.expovariate(1 / PAUSE_S))

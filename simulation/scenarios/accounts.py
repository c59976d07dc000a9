"""Scenarios of the directory: what an administrator was told is there on every replica, and what was removed is gone.

cluster-accounts    SCRAM users are made and removed at the doors of three nodes, while leaders die and links break
"""

from __future__ import annotations

import asyncio
from typing import Final, final

from longhall.client.hall import Hall
from longhall.client.refusals import Refused, Unreachable
from longhall.directory.accounts import MECHANISMS
from longhall.directory.directory import Directory
from longhall.doors.kafka.wire.messages.scram_users import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsRequestDeletion,
    AlterUserScramCredentialsRequestUpsertion,
    AlterUserScramCredentialsResponse,
)
from longhall.errors import LonghallError
from longhall.service.directory_operations import AddUser
from simulation.checkers.violation import demand
from simulation.replicas.fault_menus import LEADERS
from simulation.scenarios.cluster_run import ClusterRun
from simulation.scenarios.machine import Starter
from simulation.scenarios.run_context import RunContext
from simulation.scenarios.run_result import RunResult, Scenario
from simulation.world import Simulation

PAUSE_S: Final = 0.3
REMOVAL_CHANCE: Final = 0.2
ITERATIONS: Final = 4_096
HASH_BYTES: Final = (32, 64)
READY_S: Final = 20.0


@final
class AccountOracle:
    """What each user may be, as far as an administrator can know: there, gone, or either of both."""

    def __init__(self) -> None:
        self.acknowledged = 0
        self._may_exist: dict[str, bool] = {}
        self._may_lack: dict[str, bool] = {}

    def begin(self, user: str, *, removal: bool) -> None:
        """A change is under way: it may happen or not."""
        if removal:
            self._may_lack[user] = True
        else:
            self._may_exist[user] = self._may_lack[user] = True

    def end(self, user: str, *, removal: bool) -> None:
        """A change was acknowledged."""
        self.acknowledged += 1
        self._may_exist[user], self._may_lack[user] = not removal, removal

    def certain(self) -> list[str]:
        """The users that exist for certain."""
        return [user for user, lacks in self._may_lack.items() if not lacks]

    def check(self, directory: Directory, node: str) -> None:
        """Compare with the directory of a node that has everything."""
        users = directory.accounts.users
        for user, may_exist in self._may_exist.items():
            found = users.get(user)
            if found is not None and not found.scram:
                found = None  # Without credentials nobody can log in as this user.
            demand(found is not None or self._may_lack[user], f"{user} was acknowledged, and {node} lacks it")
            demand(found is None or may_exist, f"{user} was removed, and {node} has it")
            if found is not None:
                salts = {key.salt for key in found.scram}
                demand(salts == {salt_of(user)}, f"{user} has the credentials of a change that was not made: {salts!r}")
                demand(len(found.scram) == len(MECHANISMS), f"{user} has a part of its credentials")


def salt_of(user: str) -> bytes:
    return user.encode().rjust(16, b".")


async def administrate(context: RunContext, oracle: AccountOracle, name: str) -> None:
    """Make users, each once, and remove some of them, until the run ends."""
    chance = context.stream(name)
    hall: Hall | None = None
    number = 0
    while not context.closing:
        hall = hall or await context.connect(name)
        number += 1
        certain = [user for user in oracle.certain() if user.startswith(name)]
        removal = bool(certain) and chance.random() < REMOVAL_CHANCE
        user = chance.choice(certain) if removal else f"{name}-{number}"
        oracle.begin(user, removal=removal)
        try:
            if await _change(hall, user, removal=removal):
                oracle.end(user, removal=removal)
        except (Refused, Unreachable, LonghallError):
            hall.close()
            hall = None
        await context.rest(chance.expovariate(1 / PAUSE_S))


async def _change(hall: Hall, user: str, *, removal: bool) -> bool:
    request = AlterUserScramCredentialsRequest()
    for mechanism, size in enumerate(HASH_BYTES, 1):
        if removal:
            request.deletions.append(AlterUserScramCredentialsRequestDeletion(name=user, mechanism=mechanism))
        else:
            request.upsertions.append(
                AlterUserScramCredentialsRequestUpsertion(
                    name=user,
                    mechanism=mechanism,
                    iterations=ITERATIONS,
                    salt=salt_of(user),
                    salted_password=bytes(size),
                )
            )
    connection = await hall.connection()
    answer = await connection.call(request, AlterUserScramCredentialsResponse, timeout_ms=5_000)
    return answer.results[0].error_code == 0


async def cluster_accounts(simulation: Simulation, starter: Starter) -> RunResult:
    run = ClusterRun(simulation, LEADERS)
    places = await run.begin(1)
    leading = run.cluster.serving()
    assert leading is not None
    process, node = leading

    async def add_root() -> None:
        await node.service.dispatch(AddUser("root", administrator=True))

    await process.start(add_root())
    run.write(places, plain=0, idempotent=1, transactional=0, pause_s=1.0)
    oracle = AccountOracle()
    for number in range(2):
        run.context.act(administrate(run.context, oracle, f"administrator-{number}"))
    played = await run.end(6.0)
    await run.cluster.up(READY_S)
    await asyncio.sleep(1)
    for number, one in run.cluster.nodes.items():
        oracle.check(one.hall.catalogue.directory, f"node {number}")
    demand(oracle.acknowledged > 0, "no change of a user was acknowledged")
    return played


ACCOUNT_SCENARIOS: Final[dict[str, Scenario]] = {"cluster-accounts": cluster_accounts}

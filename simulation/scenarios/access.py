"""Scenarios of permissions: a rule that was revoked allows nothing any more, on any node.

cluster-access    access rules are added and revoked at the doors of three nodes, while leaders die and links break
"""

from __future__ import annotations

import asyncio
from typing import Final, final

from longhall.client.hall import Hall
from longhall.client.refusals import Refused, Unreachable
from longhall.directory.access_rules import AccessAction, Kind
from longhall.doors.kafka.wire.messages.acls import (
    CreateAclsRequest,
    CreateAclsRequestCreation,
    CreateAclsResponse,
    DeleteAclsRequest,
    DeleteAclsRequestFilter,
    DeleteAclsResponse,
)
from longhall.errors import LonghallError
from longhall.front.guard import AccessGuard
from longhall.front.permissions import Need, RequestOrigin
from longhall.service.directory_operations import AddUser
from simulation.checkers.violation import demand
from simulation.replicas.fault_menus import LEADERS
from simulation.scenarios.cluster_run import ClusterRun
from simulation.scenarios.machine import Starter
from simulation.scenarios.run_context import RunContext
from simulation.scenarios.run_result import RunResult, Scenario
from simulation.world import Simulation

PAUSE_S: Final = 0.3
REVOKE_CHANCE: Final = 0.4
READY_S: Final = 20.0
TRIES_MAX: Final = 50
TOPIC: Final = 2  # Kafka's numbers: a topic,
READ: Final = 3  # the operation,
ALLOW: Final = 3  # and the permission.
LITERAL: Final = 3
ORIGIN: Final = RequestOrigin("10.0.0.1", False, 0)


@final
class AccessOracle:
    """What each user may be allowed, as far as an administrator can know."""

    def __init__(self) -> None:
        self.acknowledged = 0
        self.revoked = 0
        self._may_hold: dict[str, bool] = {}
        self._may_lack: dict[str, bool] = {}

    def begin(self, user: str, *, revokes: bool) -> None:
        """A change is under way: it may happen or not."""
        if revokes:
            self._may_lack[user] = True
        else:
            self._may_hold[user] = self._may_lack[user] = True

    def end(self, user: str, *, revokes: bool) -> None:
        """A change was acknowledged."""
        self.acknowledged += 1
        self.revoked += revokes
        self._may_hold[user], self._may_lack[user] = not revokes, revokes

    def granted(self) -> list[str]:
        """The users with a rule for certain."""
        return [user for user, lacks in self._may_lack.items() if not lacks]

    def open(self) -> list[str]:
        """The users who may have a rule."""
        return [user for user, holds in self._may_hold.items() if holds]

    def check(self, guard: AccessGuard, node: str) -> None:
        """Compare with the decisions of a node that has everything."""
        for user, may_hold in self._may_hold.items():
            need = Need(AccessAction.READ, Kind.TOPIC, f"of-{user}")
            allowed = guard.explain(user, need, ORIGIN).allowed
            demand(allowed or self._may_lack[user], f"{user} was allowed to read, and {node} refuses")
            demand(not allowed or may_hold, f"the rule for {user} was revoked, and {node} allows")


async def administrate(context: RunContext, oracle: AccessOracle, name: str) -> None:
    """Give rules to users, each once, and revoke some of them, until the run ends."""
    chance = context.stream(name)
    hall: Hall | None = None
    number = 0
    while not context.closing:
        hall = hall or await context.connect(name)
        number += 1
        own = [user for user in oracle.granted() if user.startswith(name)]
        revokes = bool(own) and chance.random() < REVOKE_CHANCE
        user = chance.choice(own) if revokes else f"{name}-{number}"
        if not await _change(hall, oracle, user, revokes=revokes):
            hall.close()
            hall = None
        await context.rest(chance.expovariate(1 / PAUSE_S))


async def revoke_all(context: RunContext, oracle: AccessOracle) -> None:
    """Revoke every rule that may be there: the last changes of a run are revocations."""
    for _ in range(TRIES_MAX):
        if not oracle.open():
            return
        hall = await context.connect("revoker")
        for user in oracle.open():
            if not await _change(hall, oracle, user, revokes=True):
                break
        hall.close()
        await asyncio.sleep(1)
    demand(not oracle.open(), "rules cannot be revoked in a cluster without faults")


async def _change(hall: Hall, oracle: AccessOracle, user: str, *, revokes: bool) -> bool:
    """True if the change was acknowledged."""
    oracle.begin(user, revokes=revokes)
    try:
        if not (await _revoke(hall, user) if revokes else await _allow(hall, user)):
            return False
    except (Refused, Unreachable, LonghallError):
        return False
    oracle.end(user, revokes=revokes)
    return True


async def _allow(hall: Hall, user: str) -> bool:
    rule = CreateAclsRequestCreation(
        resource_type=TOPIC,
        resource_name=f"of-{user}",
        principal=f"User:{user}",
        host="*",
        operation=READ,
        permission_type=ALLOW,
    )
    connection = await hall.connection()
    answer = await connection.call(CreateAclsRequest(creations=[rule]), CreateAclsResponse, timeout_ms=5_000)
    return all(one.error_code == 0 for one in answer.results)


async def _revoke(hall: Hall, user: str) -> bool:
    wanted = DeleteAclsRequestFilter(
        resource_type_filter=TOPIC,
        resource_name_filter=f"of-{user}",
        pattern_type_filter=LITERAL,
        principal_filter=f"User:{user}",
        operation=READ,
        permission_type=ALLOW,
    )
    connection = await hall.connection()
    answer = await connection.call(DeleteAclsRequest(filters=[wanted]), DeleteAclsResponse, timeout_ms=5_000)
    return all(one.error_code == 0 for one in answer.filter_results)


async def cluster_access(simulation: Simulation, starter: Starter) -> RunResult:
    run = ClusterRun(simulation, LEADERS)
    places = await run.begin(1)
    leading = run.cluster.serving()
    assert leading is not None
    process, node = leading

    async def add_root() -> None:
        await node.service.dispatch(AddUser("root", administrator=True))

    await process.start(add_root())
    run.write(places, plain=0, idempotent=1, transactional=0, pause_s=1.0)
    oracle = AccessOracle()
    for number in range(2):
        run.context.act(administrate(run.context, oracle, f"administrator-{number}"))
    played = await run.end(6.0)
    await run.cluster.up(READY_S)
    await asyncio.sleep(1)
    for number, one in run.cluster.nodes.items():
        oracle.check(one.guard, f"node {number}")
    await run.context.on_clients(revoke_all(run.context, oracle))
    await asyncio.sleep(1)
    for number, one in run.cluster.nodes.items():
        oracle.check(one.guard, f"node {number}")
    demand(oracle.revoked > 0, "no rule was revoked")
    return played


ACCESS_SCENARIOS: Final[dict[str, Scenario]] = {"cluster-access": cluster_access}

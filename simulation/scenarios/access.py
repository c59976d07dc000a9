"""Scenarios of permissions: a rule that was revoked allows nothing any more, on any node.

cluster-access    access rules are added and revoked at the doors of three nodes, while leaders die and links break
"""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Final

from longhall.client.hall import Hall
from longhall.directory.access_rules import AccessAction, Kind
from longhall.doors.kafka.wire.messages.acls import (
    CreateAclsRequest,
    CreateAclsRequestCreation,
    CreateAclsResponse,
    DeleteAclsRequest,
    DeleteAclsRequestFilter,
    DeleteAclsResponse,
)
from longhall.front.guard import AccessGuard
from longhall.front.permissions import Need, RequestOrigin
from simulation.checkers.violation import demand
from simulation.scenarios.administration import KnownUsers, begin_administration, end_administration
from simulation.scenarios.cluster_run import ClusterRun
from simulation.scenarios.machine import Starter
from simulation.scenarios.run_context import RunContext
from simulation.scenarios.run_result import RunResult, Scenario
from simulation.world import Simulation

REVOKE_CHANCE: Final = 0.4
TRIES_MAX: Final = 50
TOPIC: Final = 2  # Kafka's numbers: a topic,
READ: Final = 3  # the operation,
ALLOW: Final = 3  # and the permission.
LITERAL: Final = 3
ORIGIN: Final = RequestOrigin("10.0.0.1", False, 0)


async def revoke_all(context: RunContext, known: KnownUsers) -> None:
    """Revoke every rule that may be there: the last changes of a run are revocations."""
    for _ in range(TRIES_MAX):
        if not known.possible():
            return
        hall = await context.connect("revoker")
        for user in known.possible():
            if not await known.change(hall, user, removal=True):
                break
        hall.close()
        await asyncio.sleep(1)
    demand(not known.possible(), "rules cannot be revoked in a cluster without faults")


def may_read(guard: AccessGuard, user: str) -> bool:
    """True if a node lets the user read its topic."""
    return guard.explain(user, Need(AccessAction.READ, Kind.TOPIC, f"of-{user}"), ORIGIN).allowed


async def _change(hall: Hall, user: str, removal: bool) -> bool:
    return await _revoke(hall, user) if removal else await _allow(hall, user)


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
    known = KnownUsers(_change)
    run = await begin_administration(simulation, known, REVOKE_CHANCE)
    played = await end_administration(run)
    _check(run, known)
    await run.context.on_clients(revoke_all(run.context, known))
    await asyncio.sleep(1)
    _check(run, known)
    demand(known.removed > 0, "no rule was revoked")
    return played


def _check(run: ClusterRun, known: KnownUsers) -> None:
    for number, one in run.cluster.nodes.items():
        known.check(f"node {number}", partial(may_read, one.guard))


ACCESS_SCENARIOS: Final[dict[str, Scenario]] = {"cluster-access": cluster_access}

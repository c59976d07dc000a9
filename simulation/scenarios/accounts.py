"""Scenarios of the directory: what an administrator was told is there on every replica, and what was removed is gone.

cluster-accounts    SCRAM users are made and removed at the doors of three nodes, while leaders die and links break
"""

from __future__ import annotations

from functools import partial
from typing import Final

from longhall.client.hall import Hall
from longhall.directory.accounts import MECHANISMS
from longhall.directory.directory import Directory
from longhall.doors.kafka.wire.messages.scram_users import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsRequestDeletion,
    AlterUserScramCredentialsRequestUpsertion,
    AlterUserScramCredentialsResponse,
)
from simulation.checkers.violation import demand
from simulation.scenarios.administration import KnownUsers, begin_administration, end_administration
from simulation.scenarios.machine import Starter
from simulation.scenarios.run_result import RunResult, Scenario
from simulation.world import Simulation

REMOVAL_CHANCE: Final = 0.2
ITERATIONS: Final = 4_096
HASH_BYTES: Final = (32, 64)


def has_credentials(directory: Directory, user: str) -> bool:
    """True if somebody can log in as this user. The credentials are whole, and those of a change that was made."""
    found = directory.accounts.users.get(user)
    if found is None or not found.scram:
        return False
    salts = {key.salt for key in found.scram}
    demand(salts == {salt_of(user)}, f"{user} has the credentials of a change that was not made: {salts!r}")
    demand(len(found.scram) == len(MECHANISMS), f"{user} has a part of its credentials")
    return True


def salt_of(user: str) -> bytes:
    return user.encode().rjust(16, b".")


async def _change(hall: Hall, user: str, removal: bool) -> bool:
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
    known = KnownUsers(_change)
    run = await begin_administration(simulation, known, REMOVAL_CHANCE)
    played = await end_administration(run)
    for number, one in run.cluster.nodes.items():
        known.check(f"node {number}", partial(has_credentials, one.hall.catalogue.directory))
    demand(known.acknowledged > 0, "no change of a user was acknowledged")
    return played


ACCOUNT_SCENARIOS: Final[dict[str, Scenario]] = {"cluster-accounts": cluster_accounts}

"""Bugs planted on purpose: the simulation must find each of them, or a run without a failure proves nothing.

Each bug replaces a few functions of the plain Python with faulty ones for one run, and states which scenario finds it
within how many seeds. Each is a mistake that some storage system has made.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Final

from simulation.bug import Bug, replaced
from simulation.planted_access import ACCESS_BUGS
from simulation.planted_accounts import ACCOUNT_BUGS
from simulation.planted_amqp import AMQP_BUGS
from simulation.planted_coordinators import COORDINATOR_BUGS
from simulation.planted_disks import DISK_BUGS
from simulation.planted_features import FEATURE_BUGS
from simulation.planted_histories import HISTORY_BUGS
from simulation.planted_moves import MOVE_BUGS
from simulation.planted_outboxes import OUTBOX_BUGS
from simulation.planted_peers import PEER_BUGS
from simulation.planted_queues import QUEUE_BUGS
from simulation.planted_repairs import REPAIR_BUGS
from simulation.planted_replicas import REPLICA_BUGS
from simulation.planted_scrubs import SCRUB_BUGS
from simulation.planted_sealed import SEALED_BUGS
from simulation.planted_shares import SHARE_BUGS
from simulation.planted_spread import SPREAD_BUGS
from simulation.planted_topics import TOPIC_BUGS
from simulation.planted_transactions import TRANSACTION_BUGS
from simulation.planted_usage import USAGE_BUGS
from simulation.planted_wings import WING_BUGS

TENTHS: Final = 10

PLANTED: Final[dict[str, Bug]] = {
    **TOPIC_BUGS,
    **QUEUE_BUGS,
    **FEATURE_BUGS,
    **REPLICA_BUGS,
    **HISTORY_BUGS,
    **WING_BUGS,
    **SPREAD_BUGS,
    **MOVE_BUGS,
    **OUTBOX_BUGS,
    **TRANSACTION_BUGS,
    **COORDINATOR_BUGS,
    **DISK_BUGS,
    **PEER_BUGS,
    **REPAIR_BUGS,
    **SCRUB_BUGS,
    **SHARE_BUGS,
    **AMQP_BUGS,
    **ACCOUNT_BUGS,
    **USAGE_BUGS,
    **ACCESS_BUGS,
    **SEALED_BUGS,
}


def tenth(number: int) -> list[str]:
    """Every tenth planted bug, from `number` on: ten consecutive numbers cover all bugs."""
    return sorted(PLANTED)[number % TENTHS :: TENTHS]


@contextmanager
def planted(name: str) -> Iterator[None]:
    """Plant the bug inside the `with` block; an empty name plants none."""
    with ExitStack() as stack:
        for where, attribute, worse in PLANTED[name].plant() if name else ():
            stack.enter_context(replaced(where, attribute, worse))
        yield

"""Bugs that are put in on purpose: if the simulation does not notice them, its silence about the rest means nothing.

Each bug exchanges a few parts of the plain Python for worse ones while a run lasts, and states within how many seeds of
which scenario it is found. They are mistakes that somebody could make: each has happened to some storage system.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Final

from simulation.bug import Bug, replaced
from simulation.planted_coordinators import COORDINATOR_BUGS
from simulation.planted_disks import DISK_BUGS
from simulation.planted_features import FEATURE_BUGS
from simulation.planted_histories import HISTORY_BUGS
from simulation.planted_peers import PEER_BUGS
from simulation.planted_queues import QUEUE_BUGS
from simulation.planted_repairs import REPAIR_BUGS
from simulation.planted_replicas import REPLICA_BUGS
from simulation.planted_scrubs import SCRUB_BUGS
from simulation.planted_topics import TOPIC_BUGS
from simulation.planted_wings import WING_BUGS

TENTHS: Final = 10

PLANTED: Final[dict[str, Bug]] = {
    **TOPIC_BUGS,
    **QUEUE_BUGS,
    **FEATURE_BUGS,
    **REPLICA_BUGS,
    **HISTORY_BUGS,
    **WING_BUGS,
    **COORDINATOR_BUGS,
    **DISK_BUGS,
    **PEER_BUGS,
    **REPAIR_BUGS,
    **SCRUB_BUGS,
}


def tenth(number: int) -> list[str]:
    """One bug of ten: whoever runs ten of them in a row has run all."""
    return sorted(PLANTED)[number % TENTHS :: TENTHS]


@contextmanager
def planted(name: str) -> Iterator[None]:
    """While it lasts, the bug is in; no name, no bug."""
    with ExitStack() as stack:
        for where, attribute, worse in PLANTED[name].plant() if name else ():
            stack.enter_context(replaced(where, attribute, worse))
        yield

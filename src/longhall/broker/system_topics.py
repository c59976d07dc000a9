"""System topics: topics that Longhall writes and clients read.

Nobody else writes, changes or deletes one, administrators included, through any door: a client that may change the
audit topic could remove its own traces. The broker refuses it where topics and queues are administered, so that no door
can forget it. The Kafka door refuses to produce to one.
"""

from __future__ import annotations

from longhall.errors import Code, LonghallError
from longhall.names import SYSTEM_TOPICS


def refuse_system_topic(name: str) -> None:
    """Raises ACCESS_REFUSED if this is the name of a system topic."""
    if name in SYSTEM_TOPICS:
        raise LonghallError(
            Code.ACCESS_REFUSED, f"'{name}' is a topic of Longhall itself: clients can read it, and nothing else"
        )

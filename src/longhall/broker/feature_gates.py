"""Feature gates: what may be written at which feature level.

    level 1   what the first release with clusters writes and understands
    level 2   a batch may span several entries of the log (up to 64 MiB in a cluster, instead of 4); topics and queues
              may be acknowledged by one host or by a quorum, because elections choose the most complete replica; queues
              grow and shrink, and FIFO groups have marks; directories have format 2
    level 3   topics and queues may be placed in wings
    level 4   the log notes its replicas, and replicas compare digests of their state at marks in it, so that a lost
              coordinator can be rebuilt from the logs and a divergent replica is found; the receipt secret is not
              in the coordinator any more, and a node that joins asks a member for it

Reads are never gated: a version reads all levels up to its newest. Writes are gated by `Hall.feature_level`, which is
raised only when every node of the cluster can read the new formats, and never decreases. A standalone node stays at
level 1, so that an older version can open its directory, unless one of its queues has grown.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from longhall.broker.configuration import ACKNOWLEDGE, IN_THE_HALL, PLACEMENT
from longhall.broker.hall import Hall
from longhall.errors import Code, LonghallError

OLDEST: Final = 1
NEWEST: Final = 4
WORDS: Final = {
    1: "the formats of the first release with clusters",
    2: "batches up to 64 MiB in a cluster; acknowledgement by one host or by a quorum; queues that grow and shrink",
    3: "queues and topics in wings, with leaders of their own",
    4: "the log notes its replicas, and replicas compare digests of their state",
}
MAP_LEVEL: Final = 2  # Maps of partitions, and marks.
WINGS_LEVEL: Final = 3  # Placements other than in the hall itself.
RECEIPT_SECRET_LEVEL: Final = 4  # The coordinator's record has the digest of the receipt secret alone.
REPLICAS_LEVEL: Final = 4  # The log notes its replicas, and marks at which they compare their state.
ACKNOWLEDGE_LEVEL: Final = 2  # Weaker acknowledgements, and elections that account for them.


def may_map(hall: Hall) -> bool:
    """True if the parts of a queue may change, and marks may be written."""
    return hall.replica is None or hall.feature_level >= MAP_LEVEL


def check_topic(hall: Hall, configuration: Mapping[str, str]) -> None:
    """Raises INVALID_CONFIGURATION for settings above the feature level."""
    check_acknowledge(hall, configuration.get(ACKNOWLEDGE, "all"))
    check_placement(hall, configuration.get(PLACEMENT, IN_THE_HALL))


def check_acknowledge(hall: Hall, whom: str) -> None:
    """Raises INVALID_CONFIGURATION for weaker acknowledgements below their feature level."""
    if whom != "all" and hall.replica is not None and hall.feature_level < ACKNOWLEDGE_LEVEL:
        raise LonghallError(
            Code.INVALID_CONFIGURATION,
            f"{ACKNOWLEDGE}={whom} needs feature level {ACKNOWLEDGE_LEVEL}, and the cluster is at level "
            f"{hall.feature_level}: raise it with `longhall cluster upgrade` when every node has the new version",
        )


def check_placement(hall: Hall, placement: str) -> None:
    """Raises INVALID_CONFIGURATION for wings on a standalone node, or below their feature level."""
    if placement == IN_THE_HALL or hall.options.wing:
        return
    if hall.wings is None:
        raise LonghallError(
            Code.INVALID_CONFIGURATION, f"{PLACEMENT}={placement} is for clusters: this node is standalone."
        )
    if hall.feature_level < WINGS_LEVEL:
        raise LonghallError(
            Code.INVALID_CONFIGURATION,
            f"{PLACEMENT}={placement} needs feature level {WINGS_LEVEL}, and the cluster is at level "
            f"{hall.feature_level}: raise it with `longhall cluster upgrade` when every node has the new version",
        )

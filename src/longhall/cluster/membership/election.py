"""What the manager of a cluster decides, from what is on record and who is there. Pure: it neither asks nor writes.

| on record | there is | decided |
|---|---|---|
| a leader that lives | a replica in sync that is gone | it leaves the set, so that nobody waits for it |
| a leader that says it is unfit | a replica in sync that lives and is not | that one leads, under a new epoch |
| a leader that is gone, or none | a replica in sync that lives | it leads, under a new epoch; the dead leave the set |
| a leader that is gone, or none | nobody in sync lives | nothing: whoever has everything has to come back |
| the same | fewer than `in_sync_min`, none stopped cleanly | nothing yet: one alone may lack what it had synced |

An election is safe whatever is believed of the old leader: it can acknowledge nothing that the replicas in sync do not
confirm, and they confirm nothing under an epoch that is over. So it may be quick. What is never decided here is to let
somebody lead who may lack what was acknowledged.
"""

from __future__ import annotations

from collections.abc import Set
from typing import Final, NamedTuple

from longhall.coordination.ports import NOBODY, ShardState

REPLICAS_MAX: Final = 3  # Unless the settings say otherwise.
UNCLEAN: Final = "not stopped cleanly"  # Why a node says that it is unfit, until it has met a leader.


class NextRecord(NamedTuple):
    """How the record should read. A new leader needs a new epoch."""

    leader: int
    in_sync: tuple[int, ...]
    elects: bool


def decide(
    state: ShardState,
    alive: Set[int],
    suspects: Set[int] = frozenset(),
    unfit: Set[int] = frozenset(),
    unclean: Set[int] = frozenset(),
    in_sync_min: int = 1,
) -> NextRecord | None:
    """What is to change, if anything. `alive` are registered; `suspects` are, and their machine says they are gone;
    `unfit` say themselves that another one should lead, if there is one; the `unclean` among them were not stopped
    cleanly and have met no leader since.
    """
    there = alive - suspects
    in_sync = tuple(node for node in state.in_sync if node in there)
    candidates = [node for node in state.replicas if node in in_sync]
    fit = [node for node in candidates if node not in unfit]
    if state.leader in candidates and (state.leader in fit or not fit):
        return NextRecord(state.leader, in_sync, False) if in_sync != state.in_sync else None
    enough = min(in_sync_min, len(state.in_sync))
    if not fit and len(candidates) < enough and all(node in unclean for node in candidates):
        return None
    chosen = sorted(fit or candidates, key=lambda node: node in state.leaving)
    return NextRecord(chosen[0], in_sync, True) if chosen else None


def may_campaign(node: int, leader: int, alive: Set[int], manager: int, vacant_ms: int, patience_ms: int) -> bool:
    """Whether a node should want the office. The leader leaves it to others while there are any: whoever loses both at
    once has to wait until the session of the dead one ends.
    """
    if manager != NOBODY:
        return False
    others = alive - {node}
    return node != leader or not others or vacant_ms > patience_ms


def should_resign(node: int, leader: int, alive: Set[int]) -> bool:
    """Whether a manager should leave the office to somebody else."""
    return node == leader and bool(alive - {node})

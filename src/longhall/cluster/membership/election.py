"""The election rules: the next record, from the record and the live nodes. Pure: nothing is read or written.

| leader on record | replicas in sync | decided |
|---|---|---|
| live | one is dead | it leaves the set, so that the leader does not wait for it |
| live and unfit | one is live and fit | that one leads, under a new epoch |
| dead, or none | one is live | it leads, under a new epoch; the dead ones leave the set |
| dead, or none | none is live | nothing: a replica that has everything has to come back |
| dead, or none | fewer than `in_sync_min` live, none stopped cleanly | nothing yet: one may lack what it had synced |

An election is safe even if the old leader is alive: it can acknowledge nothing that the replicas in sync do not
confirm, and they confirm nothing under an epoch that is over. So an election may be quick. The rules never let a
replica lead that may lack acknowledged entries.
"""

from __future__ import annotations

from collections.abc import Set
from typing import Final, NamedTuple

from longhall.coordination.ports import NOBODY, ShardState

REPLICAS_MAX: Final = 3  # By default.
UNCLEAN: Final = "not stopped cleanly"  # Why a node reports itself as unfit, until its log agrees with a leader's.


class NextRecord(NamedTuple):
    """The leader and the in-sync set of the next record. An election needs a new epoch."""

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
    """The next record; None if nothing is to change. `alive` nodes are registered; the machines of `suspects` refuse
    connections; `unfit` nodes report that another one should lead, if there is one; `unclean` ones among them were not
    stopped cleanly and have followed no leader since.
    """
    live = alive - suspects
    in_sync = tuple(node for node in state.in_sync if node in live)
    candidates = [node for node in state.replicas if node in in_sync]
    fit = [node for node in candidates if node not in unfit]
    if state.leader in candidates and (state.leader in fit or not fit):
        return NextRecord(state.leader, in_sync, False) if in_sync != state.in_sync else None
    enough = min(in_sync_min, len(state.in_sync))
    if not fit and len(candidates) < enough and all(node in unclean for node in candidates):
        return None
    chosen = sorted(fit or candidates, key=lambda node: node in state.leaving)
    return NextRecord(chosen[0], in_sync, True) if chosen else None


def may_campaign(node: int, leader: int, alive: Set[int], controller: int, vacant_ms: int, patience_ms: int) -> bool:
    """True if a node should campaign for controller. The leader leaves that to other nodes while there are any: a
    cluster that loses leader and controller at once has to wait until the session of the dead node ends.
    """
    if controller != NOBODY:
        return False
    others = alive - {node}
    return node != leader or not others or vacant_ms > patience_ms


def should_resign(node: int, leader: int, alive: Set[int]) -> bool:
    """True if the controller should resign in favour of another node."""
    return node == leader and bool(alive - {node})

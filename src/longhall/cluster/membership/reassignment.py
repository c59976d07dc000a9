"""Replica reassignment: the controller's next step, as a pure function of the record and the goals.

| found | step |
|---|---|
| fewer replicas than the factor, and a host without one | it becomes a replica: a full sync, then it is in sync |
| a leaving replica, and it leads | none: the leader transfers its leadership first (`leader_duty`) |
| a leaving replica, and enough others have everything | it leaves replicas and in-sync set in one change |
| a leaving replica, otherwise | none yet |

A replica is leaving when its host is drained or when the record says so (`leaving`, which a move writes). Every step is
one compare-and-set of the record, so the next controller goes on where the last one stopped. More replicas than the
factor stay: an operator asked for them.
"""

from __future__ import annotations

from collections.abc import Mapping, Set
from typing import NamedTuple

import msgspec

from longhall.cluster.membership.rack_placement import vacancy
from longhall.coordination.ports import NOBODY, ShardState


class ReassignmentGoals(NamedTuple):
    """How many replicas there should be, how many of them in sync, and on which nodes none."""

    factor: int
    in_sync_min: int
    drained: Set[int] = frozenset()


def leaving_of(state: ShardState, drained: Set[int]) -> frozenset[int]:
    """The replicas that are leaving."""
    return frozenset(node for node in state.replicas if node in state.leaving or node in drained)


def next_step(state: ShardState, racks: Mapping[int, str], goals: ReassignmentGoals) -> ShardState | None:
    """The record after the next step; None if there is nothing to do now. `racks` has every live host."""
    leaving = leaving_of(state, goals.drained)
    stay = [node for node in state.replicas if node not in leaving]
    free = {node: rack for node, rack in racks.items() if node not in leaving and node not in goals.drained}
    filled = _filled(stay, free, goals.factor)
    replicas = (*state.replicas, *(node for node in filled if node not in state.replicas))
    after = msgspec.structs.replace(state, replicas=replicas)
    for node in state.replicas if state.leader in racks else ():
        if node in leaving and _may_go(after, node, leaving, frozenset(racks), goals):
            after = _without(after, node)
    still_leaving = tuple(node for node in after.leaving if node in after.replicas)
    after = msgspec.structs.replace(after, leaving=still_leaving)
    return after if after != state else None


def successor(state: ShardState, alive: Set[int], drained: Set[int]) -> int:
    """The node to which a leader should transfer its leadership; NOBODY if no other replica is in sync."""
    leaving = leaving_of(state, drained)
    fit = [node for node in state.replicas if node in state.in_sync and node in alive and node != state.leader]
    return next((node for node in fit if node not in leaving), NOBODY)


def _filled(stay: list[int], free: Mapping[int, str], factor: int) -> list[int]:
    """The replicas that stay, with new ones up to the factor. Only an operator moves one to another rack."""
    filled = list(stay)
    while len(filled) < factor and (found := vacancy(filled, free)) is not None:
        filled.append(found)
    return filled


def _may_go(state: ShardState, node: int, leaving: Set[int], alive: Set[int], goals: ReassignmentGoals) -> bool:
    if node == state.leader:
        return False
    stay = [one for one in state.replicas if one not in leaving]
    in_sync = [one for one in state.in_sync if one != node]
    if not in_sync or any(one in alive and one not in state.in_sync for one in stay):
        return False  # Another replica still catches up.
    return node not in state.in_sync or len(set(in_sync) & set(stay)) >= goals.in_sync_min


def _without(state: ShardState, node: int) -> ShardState:
    return msgspec.structs.replace(
        state,
        replicas=tuple(one for one in state.replicas if one != node),
        in_sync=tuple(one for one in state.in_sync if one != node),
    )


def makes_way(state: ShardState, preferred: int, fit: Set[int], drained: Set[int], in_sync_min: int) -> bool:
    """True if the leader should transfer its leadership to the preferred one. After a transfer the old leader is not in
    sync for a moment, so enough others have to be.
    """
    return (
        preferred not in (NOBODY, state.leader)
        and preferred in fit
        and preferred in state.in_sync
        and preferred not in leaving_of(state, drained)
        and len(state.in_sync) > in_sync_min
    )

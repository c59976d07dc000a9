"""What the manager does step by step about who keeps the hall, as a pure function of the record and of what is wished.

| wished or found | step |
|---|---|
| fewer copies than the factor, and a host that has none | it becomes a replica: it fetches everything, then asks in |
| a replica that is to go, and it leads | none: the leader hands over first (see `handing`) |
| a replica that is to go, and enough others have everything | it leaves replicas and in-sync set in one change |
| a replica that is to go, otherwise | none yet |

A replica is to go when its host is drained or when the record says so (`leaving`, which a move writes). Every step is
one compare-and-set of the record, so whoever manages next goes on where the last one stopped. More copies than the
factor are left alone: somebody asked for them.
"""

from __future__ import annotations

from collections.abc import Mapping, Set
from typing import NamedTuple

import msgspec

from longhall.cluster.membership.rack_placement import vacancy
from longhall.coordination.ports import NOBODY, ShardState


class ReassignmentGoals(NamedTuple):
    """What the cluster is to look like."""

    factor: int
    in_sync_min: int
    drained: Set[int] = frozenset()


def leaving_of(state: ShardState, drained: Set[int]) -> frozenset[int]:
    """The replicas that are to go."""
    return frozenset(node for node in state.replicas if node in state.leaving or node in drained)


def next_step(state: ShardState, racks: Mapping[int, str], wishes: ReassignmentGoals) -> ShardState | None:
    """The record after the next step; None if there is nothing to do now. `racks` has every host that lives."""
    leaving = leaving_of(state, wishes.drained)
    stay = [node for node in state.replicas if node not in leaving]
    free = {node: rack for node, rack in racks.items() if node not in leaving and node not in wishes.drained}
    wanted = _filled(stay, free, wishes.factor)
    replicas = (*state.replicas, *(node for node in wanted if node not in state.replicas))
    after = msgspec.structs.replace(state, replicas=replicas)
    for node in state.replicas if state.leader in racks else ():
        if node in leaving and _may_go(after, node, leaving, frozenset(racks), wishes):
            after = _without(after, node)
    keepers = tuple(node for node in after.leaving if node in after.replicas)
    after = msgspec.structs.replace(after, leaving=keepers)
    return after if after != state else None


def successor(state: ShardState, alive: Set[int], drained: Set[int]) -> int:
    """Who should lead when the leader goes of its own accord; NOBODY if there is none who has everything."""
    leaving = leaving_of(state, drained)
    fit = [node for node in state.replicas if node in state.in_sync and node in alive and node != state.leader]
    return next((node for node in fit if node not in leaving), NOBODY)


def _filled(stay: list[int], free: Mapping[int, str], factor: int) -> list[int]:
    """Nobody who stays is moved for the sake of the spread: that is for whoever runs the cluster to ask for."""
    wanted = list(stay)
    while len(wanted) < factor and (found := vacancy(wanted, free)) is not None:
        wanted.append(found)
    return wanted


def _may_go(state: ShardState, node: int, leaving: Set[int], alive: Set[int], wishes: ReassignmentGoals) -> bool:
    if node == state.leader:
        return False
    stay = [one for one in state.replicas if one not in leaving]
    in_sync = [one for one in state.in_sync if one != node]
    if not in_sync or any(one in alive and one not in state.in_sync for one in stay):
        return False  # Somebody is still fetching what this one has.
    return node not in state.in_sync or len(set(in_sync) & set(stay)) >= wishes.in_sync_min


def _without(state: ShardState, node: int) -> ShardState:
    return msgspec.structs.replace(
        state,
        replicas=tuple(one for one in state.replicas if one != node),
        in_sync=tuple(one for one in state.in_sync if one != node),
    )


def makes_way(state: ShardState, preferred: int, fit: Set[int], drained: Set[int], in_sync_min: int) -> bool:
    """Whether the leader should hand over to the one that is preferred. Whoever hands over is not in sync for a moment,
    and then enough others have to be.
    """
    return (
        preferred not in (NOBODY, state.leader)
        and preferred in fit
        and preferred in state.in_sync
        and preferred not in leaving_of(state, drained)
        and len(state.in_sync) > in_sync_min
    )

"""Rack-aware placement of replicas: a number of hosts, spread over racks, with as few moves as possible.

    spread      no rack has two replicas while a rack without one has a free host
    movement    a replica stays where it is, unless it has to go or shares its rack while another rack is free

A host that is away has an unknown rack, counts as a rack of its own, and is not moved. Only places are decided here;
`reassignment` decides when a replica may go.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence, Set


def place(replicas: Sequence[int], racks: Mapping[int, str], count: int, stays: Set[int] = frozenset()) -> list[int]:
    """The hosts that should have a replica, `count` of them if there are enough hosts: those of `replicas` that stay,
    in their order, then the new ones.

    `racks` has the rack of every live host that may have one. The hosts in `stays` are removed last.
    """
    chosen = list(dict.fromkeys(replicas))
    while len(chosen) < count:
        found = vacancy(chosen, racks)
        if found is None:
            break
        chosen.append(found)
    while len(chosen) > count:
        chosen.remove(_surplus(chosen, racks, stays))
    while (pair := crowded(chosen, racks, stays)) is not None:
        chosen.remove(pair[0])
        chosen.append(pair[1])
    return chosen


def crowded(replicas: Sequence[int], racks: Mapping[int, str], stays: Set[int] = frozenset()) -> tuple[int, int] | None:
    """A replica that shares its rack with another, and a host in a rack without any; None if there is no such pair."""
    used = _used(replicas, racks)
    spare = vacancy(replicas, racks)
    if spare is None or used[racks[spare]]:
        return None
    double = [node for node in replicas if node in racks and used[racks[node]] > 1]
    return (_last(double, stays), spare) if double else None


def vacancy(replicas: Sequence[int], racks: Mapping[int, str]) -> int | None:
    """The best host for one more replica; None if there is none."""
    used = _used(replicas, racks)
    free = [node for node in racks if node not in replicas]
    return min(free, key=lambda node: (used[racks[node]], node), default=None)


def _surplus(replicas: Sequence[int], racks: Mapping[int, str], stays: Set[int]) -> int:
    """The replica that is needed least: one that is away, then one in the rack that has most."""
    away = [node for node in replicas if node not in racks]
    if away:
        return _last(away, stays)
    used = _used(replicas, racks)
    most = max(used.values())
    crowd = [node for node in replicas if used[racks[node]] == most]
    return _last(crowd, stays)


def _last(nodes: Sequence[int], stays: Set[int]) -> int:
    return next((node for node in reversed(nodes) if node not in stays), nodes[-1])


def _used(replicas: Sequence[int], racks: Mapping[int, str]) -> Counter[str]:
    return Counter(racks[node] for node in replicas if node in racks)

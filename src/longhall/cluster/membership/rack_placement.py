"""Where copies belong: so many hosts, spread over racks, and as few of them moved as can be.

    spread      no rack has two copies while a rack that has none has a host to spare
    movement    whoever keeps a copy and need not go keeps it, unless the spread asks for one of two in a rack

A host whose rack nobody knows, because it is away, counts as a rack of its own: it is left where it is. What is decided
here are places alone; who has everything, and when a copy may go, is known elsewhere.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence, Set


def place(keepers: Sequence[int], racks: Mapping[int, str], count: int, stays: Set[int] = frozenset()) -> list[int]:
    """Who should keep a copy, `count` of them if there are so many hosts: those of `keepers` that stay, in their order,
    then the new ones.

    `racks` has the rack of every host that lives and may keep one. Those in `stays` are the last to be sent away.
    """
    chosen = list(dict.fromkeys(keepers))
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


def crowded(keepers: Sequence[int], racks: Mapping[int, str], stays: Set[int] = frozenset()) -> tuple[int, int] | None:
    """A copy that shares its rack with another, and a host in a rack without any; None if there is no such pair."""
    used = _used(keepers, racks)
    spare = vacancy(keepers, racks)
    if spare is None or used[racks[spare]]:
        return None
    double = [node for node in keepers if node in racks and used[racks[node]] > 1]
    return (_last(double, stays), spare) if double else None


def vacancy(keepers: Sequence[int], racks: Mapping[int, str]) -> int | None:
    """The best host for one more copy."""
    used = _used(keepers, racks)
    free = [node for node in racks if node not in keepers]
    return min(free, key=lambda node: (used[racks[node]], node), default=None)


def _surplus(keepers: Sequence[int], racks: Mapping[int, str], stays: Set[int]) -> int:
    """The copy that is needed least: one that is away, then one of a rack that has most."""
    away = [node for node in keepers if node not in racks]
    if away:
        return _last(away, stays)
    used = _used(keepers, racks)
    most = max(used.values())
    crowd = [node for node in keepers if used[racks[node]] == most]
    return _last(crowd, stays)


def _last(nodes: Sequence[int], stays: Set[int]) -> int:
    return next((node for node in reversed(nodes) if node not in stays), nodes[-1])


def _used(keepers: Sequence[int], racks: Mapping[int, str]) -> Counter[str]:
    return Counter(racks[node] for node in keepers if node in racks)

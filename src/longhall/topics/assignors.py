"""Server-side assignors: which member of a group gets which partitions.

An assignor is a pure function of the subscriptions and the previous target. It assigns every partition of every
subscribed topic to exactly one of the members that subscribe to the topic.

    uniform   balances the number of partitions over the members and moves as few partitions as possible
    range     gives each member a contiguous range of each topic, in the order of the members, so that partitions of the
              same number of topics with equally many partitions meet at one member
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

from longhall.topics.assignment import Place, Places

UNIFORM: Final = "uniform"
RANGE: Final = "range"


class SubscribedTopic(NamedTuple):
    """A topic as a group has last seen it."""

    topic_id: bytes
    name: str
    partitions: int


class AssignorMember(NamedTuple):
    """A member as an assignor sees it."""

    instance_id: str | None
    topics: frozenset[bytes]  # The ids of existing topics to which it subscribes.
    previous: Places  # Its previous target.


Assignor = Callable[[Mapping[str, AssignorMember], Mapping[bytes, int]], dict[str, Places]]


def assign_range(members: Mapping[str, AssignorMember], partitions: Mapping[bytes, int]) -> dict[str, Places]:
    """The range assignor. Static members come first, by instance id, so that a restart changes nothing."""
    found: dict[str, set[Place]] = {member_id: set() for member_id in members}
    ordered = _ordered(members)
    for topic_id, count in partitions.items():
        readers = [member_id for member_id in ordered if topic_id in members[member_id].topics]
        if not readers:
            continue
        share, extra = divmod(count, len(readers))
        at = 0
        for number, member_id in enumerate(readers):
            until = at + share + (number < extra)
            found[member_id].update((topic_id, partition) for partition in range(at, until))
            at = until
    return {member_id: frozenset(got) for member_id, got in found.items()}


def assign_uniform(members: Mapping[str, AssignorMember], partitions: Mapping[bytes, int]) -> dict[str, Places]:
    """The uniform assignor: members keep what they have as far as the balance allows."""
    ordered = _ordered(members)
    readers = {
        topic_id: [member_id for member_id in ordered if topic_id in members[member_id].topics]
        for topic_id in partitions
    }
    found, free = _kept(members, ordered, partitions)
    # Topics with few readers first: those with many can go anywhere later.
    free.sort(key=lambda place: (len(readers[place[0]]), place))
    if all(len(topic_readers) == len(ordered) for topic_readers in readers.values()):
        _fill_equally(found, free, ordered, sum(partitions.values()))
    else:
        for place in free:
            if readers[place[0]]:
                found[min(readers[place[0]], key=lambda member_id: len(found[member_id]))].add(place)
        _balance(found, readers)
    return {member_id: frozenset(got) for member_id, got in found.items()}


ASSIGNORS: Final[dict[str, Assignor]] = {UNIFORM: assign_uniform, RANGE: assign_range}


def _ordered(members: Mapping[str, AssignorMember]) -> list[str]:
    return sorted(members, key=lambda member_id: (members[member_id].instance_id or "\x7f", member_id))


def _kept(
    members: Mapping[str, AssignorMember], ordered: list[str], partitions: Mapping[bytes, int]
) -> tuple[dict[str, set[Place]], list[Place]]:
    """The partitions that members had before and may keep, and all other partitions."""
    free = {(topic_id, partition) for topic_id, count in partitions.items() for partition in range(count)}
    found: dict[str, set[Place]] = {}
    for member_id in ordered:
        member = members[member_id]
        found[member_id] = {place for place in member.previous if place in free and place[0] in member.topics}
        free -= found[member_id]
    return found, sorted(free)


def _fill_equally(found: dict[str, set[Place]], free: list[Place], ordered: list[str], total: int) -> None:
    """All members read all topics: each gets its share, and the first ones by what they have get one more."""
    if not ordered:
        return
    share, extra = divmod(total, len(ordered))
    by_size = sorted(ordered, key=lambda member_id: -len(found[member_id]))
    quota = {member_id: share + (number < extra) for number, member_id in enumerate(by_size)}
    for member_id in ordered:
        surplus = len(found[member_id]) - quota[member_id]
        if surplus > 0:
            given = sorted(found[member_id])[-surplus:]
            found[member_id].difference_update(given)
            free.extend(given)
    free.sort(key=lambda place: (place[1], place[0]))
    for member_id in ordered:
        wanted = quota[member_id] - len(found[member_id])
        if wanted > 0:
            found[member_id].update(free[:wanted])
            del free[:wanted]
    assert not free, "the quotas cover every partition"


def _balance(found: dict[str, set[Place]], readers: Mapping[bytes, list[str]]) -> None:
    """Move partitions from members with more to members with at least two fewer, until there are none.

    Each move lowers the sum of the squares of the counts, so that the loop ends.
    """
    moved = True
    while moved:
        moved = False
        for member_id in sorted(found, key=lambda name: -len(found[name])):
            for place in sorted(found[member_id]):
                target = min(readers[place[0]], key=lambda name: len(found[name]))
                if len(found[member_id]) - len(found[target]) >= 2:
                    found[member_id].remove(place)
                    found[target].add(place)
                    moved = True

"""Sets of partitions, as members of groups own them.

In memory a set is a frozenset of (topic id, partition). In events and members it is `Assigned`, grouped by topic and
sorted, so that equal sets are equal values.
"""

from __future__ import annotations

from collections.abc import Iterable

Place = tuple[bytes, int]  # Topic id, partition.
Places = frozenset[Place]
Assigned = tuple[tuple[bytes, tuple[int, ...]], ...]


def assigned(places: Iterable[Place]) -> Assigned:
    """The set in its stored form."""
    topics: dict[bytes, list[int]] = {}
    for topic_id, partition in places:
        topics.setdefault(topic_id, []).append(partition)
    return tuple((topic_id, tuple(sorted(topics[topic_id]))) for topic_id in sorted(topics))


def places(rows: Iterable[tuple[bytes, Iterable[int]]]) -> Places:
    """The set from its stored form, or from the rows of a request."""
    return frozenset((topic_id, partition) for topic_id, partitions in rows for partition in partitions)

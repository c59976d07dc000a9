"""Requests that name a thing more than once: Kafka answers such a name once, with INVALID_REQUEST, and does nothing."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable
from typing import TypeVar

_Named = TypeVar("_Named", bound=Hashable)


def once_and_more(names: Iterable[_Named]) -> tuple[set[_Named], list[_Named]]:
    """The names that a request has once, and those that it has more than once, in their order."""
    counts = Counter(names)
    return {name for name, count in counts.items() if count == 1}, [name for name, count in counts.items() if count > 1]

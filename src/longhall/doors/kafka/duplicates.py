"""Requests that name a thing more than once: Kafka answers such a name once, with INVALID_REQUEST, and does nothing."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterable
from typing import TypeVar

from longhall.doors.kafka.wire.error_codes import ErrorCode

_Named = TypeVar("_Named", bound=Hashable)
_Row = TypeVar("_Row")


def once_and_more(names: Iterable[_Named]) -> tuple[set[_Named], list[_Named]]:
    """The names that a request has once, and those that it has more than once, in their order."""
    counts = Counter(names)
    return {name for name, count in counts.items() if count == 1}, [name for name, count in counts.items() if count > 1]


def repeated_topics(row_class: Callable[..., _Row], names: Iterable[str]) -> list[_Row]:
    """The rows of topics that a request names more than once."""
    said = "Duplicate topic name."
    return [row_class(name=name, error_code=ErrorCode.INVALID_REQUEST, error_message=said) for name in names]

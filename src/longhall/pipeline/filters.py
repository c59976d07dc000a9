"""Filters of a query that the reader can apply: bounds on offset and time, partitions and topics.

The reader applies an accepted filter exactly, row by row, so Spark need not evaluate it again. All others are left to
Spark.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any, Final, final

from longhall.records.varint import INT64_MAX, INT64_MIN

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND: Final = timedelta(milliseconds=1)


@final
class FilterWanted:
    """The rows that the filters leave. Time bounds are in milliseconds and included; the end of offsets is excluded."""

    def __init__(self) -> None:
        self.first_offset = 0
        self.end_offset = INT64_MAX
        self.first_ms = INT64_MIN
        self.last_ms = INT64_MAX
        self.partitions: set[int] | None = None
        self.topics: set[str] | None = None

    def take(self, filters: Iterable[Any]) -> Iterator[Any]:
        """Accept the filters that the reader can apply and return the others."""
        for each in filters:
            if not self._takes(each):
                yield each

    def has(self, topic: str, partition: int) -> bool:
        return (self.topics is None or topic in self.topics) and (
            self.partitions is None or partition in self.partitions
        )

    def _takes(self, each: Any) -> bool:
        kind = type(each).__name__
        attribute: tuple[str, ...] = getattr(each, "attribute", ())
        if len(attribute) != 1:
            return False
        if kind == "IsNotNull":
            return attribute[0] in ("offset", "partition", "topic", "timestamp")  # They never are.
        value = getattr(each, "value", None)  # A question like IsNull has none.
        if attribute[0] == "offset" and type(value) is int:
            return self._takes_offset(kind, value)
        if attribute[0] == "timestamp" and isinstance(value, datetime):
            return self._takes_time(kind, value)
        if attribute[0] in ("partition", "topic"):
            return self._takes_place(attribute[0], kind, value)
        return False

    def _takes_offset(self, kind: str, value: int) -> bool:
        first, end = _bounds(kind, value)
        self.first_offset = max(self.first_offset, first)
        self.end_offset = min(self.end_offset, end if end == INT64_MAX else end + 1)
        return kind in _KINDS

    def _takes_time(self, kind: str, value: datetime) -> bool:
        if value.tzinfo is None:
            return False
        whole, rest = divmod(value - _EPOCH, _MILLISECOND)
        if rest:  # Messages have whole milliseconds: between two of them, one side of a bound moves.
            if kind in ("EqualTo", "EqualNullSafe"):
                return False
            if kind in ("GreaterThanOrEqual", "LessThan"):
                whole += 1
        first, last = _bounds(kind, whole)
        self.first_ms = max(self.first_ms, first)
        self.last_ms = min(self.last_ms, last)
        return kind in _KINDS

    def _takes_place(self, name: str, kind: str, value: Any) -> bool:
        if kind in ("EqualTo", "EqualNullSafe"):
            chosen = {value}
        elif kind == "In":
            chosen = set(value)
        else:
            return False
        before = getattr(self, f"{name}s")
        setattr(self, f"{name}s", chosen if before is None else before & chosen)
        return True


_KINDS: Final = ("EqualTo", "EqualNullSafe", "GreaterThan", "GreaterThanOrEqual", "LessThan", "LessThanOrEqual")


def _bounds(kind: str, value: int) -> tuple[int, int]:
    """The first and the last number for which a comparison is true."""
    if kind in ("EqualTo", "EqualNullSafe"):
        return value, value
    if kind == "GreaterThan":
        return min(value + 1, INT64_MAX), INT64_MAX
    if kind == "GreaterThanOrEqual":
        return value, INT64_MAX
    if kind == "LessThan":
        return INT64_MIN, max(value - 1, INT64_MIN)
    if kind == "LessThanOrEqual":
        return INT64_MIN, value
    return INT64_MIN, INT64_MAX

"""The plan of a read: from two sets of offsets to ranges for tasks, within the given limits.

Pure: no hall, no Spark. Offsets are by topic and partition; a range is what one task reads of one partition.
"""

from __future__ import annotations

import itertools
import json
import math
from collections.abc import Mapping
from typing import Final, NamedTuple

from longhall.pipeline.options import Offsets

IDS: Final = "#ids"  # No topic can be called so. Which topics the offsets are of: a recreated one has another id.


class Range(NamedTuple):
    """Offsets of one partition, the end excluded."""

    topic: str
    partition: int
    start: int
    end: int

    @property
    def size(self) -> int:
        return self.end - self.start


def to_json(offsets: Offsets, ids: Mapping[str, str] | None = None) -> dict[str, dict[str, int | str]]:
    """Offsets as Spark stores them, with sorted keys: equal offsets are equal text."""
    document: dict[str, dict[str, int | str]] = {}
    if ids:
        document[IDS] = {topic: ids[topic] for topic in sorted(ids)}
    for topic in sorted(offsets):
        document[topic] = {str(part): offsets[topic][part] for part in sorted(offsets[topic])}
    return document


def from_json(document: Mapping[str, Mapping[str, int | str]] | str) -> tuple[Offsets, dict[str, str]]:
    """Offsets and the ids of their topics; the ids are missing if another source has written the document."""
    parsed = json.loads(document) if isinstance(document, str) else document
    ids = {str(topic): str(text) for topic, text in parsed.get(IDS, {}).items()}
    offsets = {
        str(topic): {int(part): int(offset) for part, offset in parts.items()}
        for topic, parts in parsed.items()
        if topic != IDS
    }
    return offsets, ids


def ranges_between(start: Offsets, end: Offsets) -> list[Range]:
    """The range of every partition that has an end; empty ranges are left out."""
    found = []
    for topic in sorted(end):
        for partition in sorted(end[topic]):
            first = start.get(topic, {}).get(partition, 0)
            if end[topic][partition] > first:
                found.append(Range(topic, partition, first, end[topic][partition]))
    return found


def limit_rows(start: Offsets, end: Offsets, rows_max: int) -> Offsets:
    """Ends with about this many offsets before them, shared in proportion to what each partition has."""
    ranges = ranges_between(start, end)
    total = sum(each.size for each in ranges)
    limited = {topic: dict(parts) for topic, parts in end.items()}
    if total <= rows_max:
        return limited
    for each in ranges:
        share = rows_max * each.size / total
        # Every partition gets on, also one that is tiny beside the others.
        rows = math.ceil(share) if share < 1 else math.floor(share)
        limited[each.topic][each.partition] = min(each.end, each.start + rows)
    return limited


def limit_bytes(start: Offsets, end: Offsets, bytes_max: int, row_bytes: Mapping[tuple[str, int], float]) -> Offsets:
    """Ends with about this many bytes before them, by the average size of a message in each partition."""
    ranges = ranges_between(start, end)
    total_bytes = sum(each.size * max(row_bytes.get((each.topic, each.partition), 1.0), 1.0) for each in ranges)
    if total_bytes <= bytes_max:
        return {topic: dict(parts) for topic, parts in end.items()}
    rows = sum(each.size for each in ranges)
    return limit_rows(start, end, max(1, int(rows * bytes_max / total_bytes)))


def split(ranges: list[Range], partitions_min: int | None, rows_max: int | None) -> list[Range]:
    """At least `partitions_min` ranges if there is enough to read, and no range with more than `rows_max` rows."""
    pieces: list[Range] = []
    total = sum(each.size for each in ranges)
    for each in ranges:
        count = 1
        if partitions_min is not None and len(ranges) < partitions_min and total:
            count = max(1, round(each.size / total * partitions_min))
        if rows_max is not None:
            count = max(count, math.ceil(each.size / rows_max))
        count = min(count, each.size)
        cuts = [each.start + each.size * number // count for number in range(count + 1)]
        pieces += [Range(each.topic, each.partition, low, high) for low, high in itertools.pairwise(cuts)]
    return pieces

"""Freeing what a queue has settled: closed segments are written anew without it.

What is settled comes as ranges of offsets. Batches that lie in one go, batches that lie in none stay byte for byte, and
of the others only the records that are still wanted. Markers of transactions stay: readers of the log as a topic need
them to tell what was aborted. This module knows neither queues nor the clock.
"""

from __future__ import annotations

from bisect import bisect_right
from typing import Annotated, final

import msgspec

from longhall.errors import Code, LonghallError
from longhall.log.rewriting import DROP, KEEP, OPEN, rewrite_segment
from longhall.log.segment import INDEX_INTERVAL_BYTES
from longhall.records.batch import BatchHeader, Record
from longhall.world.ports import Disk

Natural = Annotated[int, msgspec.Meta(ge=0)]


class SettledSegment(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """A closed segment, and what is settled in it: first offset, offset behind the last, first offset ..."""

    base_offset: Natural
    size_bytes: Natural
    settled: list[Natural]


class OfSettled(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """Segments of one partition."""

    directory: str
    segments: list[SettledSegment]
    interval_bytes: Annotated[int, msgspec.Meta(ge=1)] = INDEX_INTERVAL_BYTES


@final
class Settled:
    """A `Keeper` for whom everything in these ranges is dead. They are in order and do not touch."""

    def __init__(self, settled: list[int]) -> None:
        assert len(settled) % 2 == 0
        self._edges = settled

    def is_dead(self, offset: int) -> bool:
        """Whether it lies in one of the ranges: behind an odd number of edges."""
        return bisect_right(self._edges, offset) % 2 == 1

    def fate(self, header: BatchHeader, batch: bytes) -> int:
        """By the offsets that the batch stands for."""
        if header.is_control:
            return KEEP
        before = bisect_right(self._edges, header.base_offset)
        if before != bisect_right(self._edges, header.last_offset):
            return OPEN
        return DROP if before % 2 == 1 else KEEP

    def keeps(self, header: BatchHeader, record: Record) -> bool:
        """What is not settled."""
        return not self.is_dead(record.offset)

    def outlives_records(self, header: BatchHeader) -> bool:
        """Nothing is rebuilt from headers that a queue needs."""
        return False

    def horizon_ms(self, header: BatchHeader, kept: list[Record]) -> int:
        """As it was."""
        return header.base_timestamp_ms if header.has_delete_horizon else -1


def free_settled(disk: Disk, arguments: dict[str, object]) -> dict[str, object]:
    """Rewrite segments without what is settled in them; nothing is installed.

    Returns for each that changed its base offset, new size and newest time. Damaged ones are left alone and listed.
    """
    task = msgspec.convert(arguments, OfSettled)
    changed: list[dict[str, int]] = []
    damaged: list[int] = []
    for one in task.segments:
        path = f"{task.directory}/{one.base_offset:020d}.log"
        keeper = Settled(one.settled)
        try:
            rewritten = rewrite_segment(disk, path, one.base_offset, one.size_bytes, keeper, task.interval_bytes)
        except LonghallError as error:
            if error.code is not Code.STORAGE_DAMAGED:
                raise
            damaged.append(one.base_offset)
            continue
        if rewritten.changed:
            changed.append(
                {
                    "base_offset": one.base_offset,
                    "new_size_bytes": rewritten.size_bytes,
                    "max_timestamp_ms": rewritten.max_timestamp_ms,
                }
            )
    return {"segments": changed, "damaged": damaged}

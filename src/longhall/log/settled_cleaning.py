"""Cleaning of settled messages: closed segments of a queue are rewritten without them.

Settled messages are given as ranges of offsets. A batch inside a range is removed, a batch outside of all ranges stays
byte for byte, and any other batch retains its unsettled records. Transaction markers stay: readers of the log as a
topic need them to recognise aborted records. This module knows neither queues nor the clock.
"""

from __future__ import annotations

from bisect import bisect_right
from typing import Annotated, final

import msgspec

from longhall.errors import Code, LonghallError
from longhall.log.segment import INDEX_INTERVAL_BYTES
from longhall.log.segment_rewrite import DROP, KEEP, OPEN, rewrite_segment
from longhall.records.batch import BatchHeader, Record
from longhall.world.ports import Disk

Natural = Annotated[int, msgspec.Meta(ge=0)]


class SettledSegment(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """A closed segment and its settled ranges, flat: first offset, offset after the last, first offset, ..."""

    base_offset: Natural
    size_bytes: Natural
    settled: list[Natural]


class SettledArguments(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """Segments of one partition to rewrite."""

    directory: str
    segments: list[SettledSegment]
    interval_bytes: Annotated[int, msgspec.Meta(ge=1)] = INDEX_INTERVAL_BYTES


@final
class Settled:
    """A retention rule that removes everything in the given ranges, which ascend and do not touch each other."""

    def __init__(self, settled: list[int]) -> None:
        assert len(settled) % 2 == 0
        self._edges = settled

    def is_dead(self, offset: int) -> bool:
        """True if the offset lies in one of the ranges, that is, after an odd number of edges."""
        return bisect_right(self._edges, offset) % 2 == 1

    def fate(self, header: BatchHeader, batch: bytes) -> int:
        """Decide by the offsets of the batch."""
        if header.is_control:
            return KEEP
        before = bisect_right(self._edges, header.base_offset)
        if before != bisect_right(self._edges, header.last_offset):
            return OPEN
        return DROP if before % 2 == 1 else KEEP

    def keeps(self, header: BatchHeader, record: Record) -> bool:
        """True if the record is not settled."""
        return not self.is_dead(record.offset)

    def outlives_records(self, header: BatchHeader) -> bool:
        """Always false: a queue rebuilds nothing from headers."""
        return False

    def horizon_ms(self, header: BatchHeader, kept: list[Record]) -> int:
        """The delete horizon as it was."""
        return header.base_timestamp_ms if header.has_delete_horizon else -1


def free_settled(disk: Disk, arguments: dict[str, object]) -> dict[str, object]:
    """Rewrite segments without their settled messages. Installs nothing.

    Returns for each segment that changed its base offset, new size and newest time. Damaged segments are listed and not
    rewritten.
    """
    task = msgspec.convert(arguments, SettledArguments)
    changed: list[dict[str, int]] = []
    damaged: list[int] = []
    for segment in task.segments:
        path = f"{task.directory}/{segment.base_offset:020d}.log"
        rule = Settled(segment.settled)
        try:
            rewritten = rewrite_segment(disk, path, segment.base_offset, segment.size_bytes, rule, task.interval_bytes)
        except LonghallError as error:
            if error.code is not Code.STORAGE_DAMAGED:
                raise
            damaged.append(segment.base_offset)
            continue
        if rewritten.changed:
            changed.append(
                {
                    "base_offset": segment.base_offset,
                    "new_size_bytes": rewritten.size_bytes,
                    "max_timestamp_ms": rewritten.max_timestamp_ms,
                }
            )
    return {"segments": changed, "damaged": damaged}

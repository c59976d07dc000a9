"""Planted bugs in the counting of usage."""

from __future__ import annotations

import asyncio
from typing import Any, Final

from longhall.broker.usage import usage_topic
from longhall.broker.usage.usage_events import UsageWritten
from longhall.broker.usage.usage_meter import UsageMeter
from longhall.broker.usage.usage_records import records_of
from longhall.broker.usage.usage_totals import UsageTotals
from longhall.broker.waiting import committed
from longhall.node import usage_writer
from longhall.node.usage_writer import REPORT_S
from simulation.bug import Bug

_Replacements = list[tuple[Any, str, Any]]


def _note_in_the_next_round() -> _Replacements:
    """What a round used is noted one round later: a leader that dies between them leaves entries without a note."""
    good: Any = UsageMeter.write
    late: dict[int, bool] = {}

    def write(self: Any) -> None:
        if late.get(id(self)):
            good(self)
            late[id(self)] = False
        elif self._rows:
            late[id(self)] = True

    return [(UsageMeter, "write", write)]


def _report_without_its_frame() -> _Replacements:
    """The records of a report are committed before the log says so: the next leader writes them again."""

    async def flush_usage(hall: Any) -> bool:
        totals = hall.usage.totals
        if not totals.rows and totals.report is None:
            return False
        partition = await usage_topic._topic(hall)
        report = usage_topic._close(hall)
        if report is None:
            return False
        usage_topic._write(hall, partition, records_of(usage_topic.source_of(hall), report))
        await committed(hall, partition.shard)
        await asyncio.sleep(REPORT_S / 2)
        usage_topic._append(hall, UsageWritten(number=report.number))
        return True

    return [(usage_writer, "flush_usage", flush_usage)]


def _snapshot_without_rows() -> _Replacements:
    """A snapshot lacks what is not written yet."""
    good: Any = UsageTotals.snapshot

    def snapshot(self: Any) -> list[Any]:
        state: list[Any] = good(self)
        state[3] = []
        return state

    return [(UsageTotals, "snapshot", snapshot)]


USAGE_BUGS: Final[dict[str, Bug]] = {
    "usage-noted-a-round-late": Bug(
        "Usage is noted in the round after the entries that it counts.",
        "cluster-usage",
        8,
        _note_in_the_next_round,
    ),
    "usage-report-in-two-frames": Bug(
        "The records of usage and the event that drops them are not in one frame.",
        "cluster-usage",
        8,
        _report_without_its_frame,
    ),
    "usage-snapshot-without-rows": Bug(
        "The usage that is not written yet is not in the snapshot.",
        "cluster-usage",
        8,
        _snapshot_without_rows,
    ),
}

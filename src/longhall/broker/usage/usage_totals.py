"""The usage of a replication group that is not in the usage topic yet. It follows from the log, like every state.

    UsageNoted      the counts are added to their rows
    UsageClosed     the oldest rows become a report with a number, and are not changed any more
    UsageWritten    the report is dropped: the topic has its records
    UsageTaken      the last number of a source whose report is in the topic, so that a repeated report is recognised

Invariant: everything that a `UsageNoted` has counted is in exactly one of the rows, the report, or the topic. The group
with the topic writes records, `UsageClosed` and `UsageWritten` in one frame. Another group commits `UsageClosed` first:
each of its leaders sends the same report then, until the group with the topic has taken it.
"""

from __future__ import annotations

from typing import Any, Final, final

from longhall.broker.usage.usage_events import Row, UsageClosed, UsageEvent, UsageNoted, UsageTaken, UsageWritten

METERS: Final = (
    "messages_sent",
    "bytes_sent",
    "messages_delivered",
    "bytes_delivered",
    "messages_settled",
    "storage_byte_seconds",
)
MESSAGES_SENT: Final = 0
BYTES_SENT: Final = 1
MESSAGES_DELIVERED: Final = 2
BYTES_DELIVERED: Final = 3
MESSAGES_SETTLED: Final = 4
STORAGE: Final = 5

ROWS_MAX: Final = 20_000  # Beyond them usage is counted without the resource.
REPORT_ROWS_MAX: Final = 2_000  # Of one report, which is one batch of the topic.
SOURCES_MAX: Final = 10_000  # Beyond them the source whose last report is the oldest is forgotten.
OWNERS_MAX: Final = 100_000  # Resources whose last sender is remembered.

Key = tuple[str, str, str, str]


@final
class UsageReport:
    """Rows that were closed together, and the time of the first and the last entry that they count."""

    def __init__(self, number: int, start_ms: int, end_ms: int, rows: list[Row]) -> None:
        self.number = number
        self.start_ms = start_ms
        self.end_ms = end_ms
        self.rows = rows


@final
class UsageTotals:
    """The state. Only `apply` changes it."""

    def __init__(self) -> None:
        self.rows: dict[Key, list[int]] = {}
        self.start_ms = 0  # Of the first note that is in the rows, and of the last one.
        self.end_ms = 0
        self.number = 0  # Of the last report.
        self.report: UsageReport | None = None
        self.sources: dict[str, int] = {}  # The last number of each, in the order of the last reports.
        self.owners: dict[str, str] = {}  # By resource: the tenant that sent to it last. Its storage is charged to it.

    def decide_close(self) -> UsageClosed | None:
        """Close the rows, or as many as a report may have; None if there are none, or a report is not written yet."""
        if self.report is not None or not self.rows:
            return None
        return UsageClosed(number=self.number + 1, count=min(len(self.rows), REPORT_ROWS_MAX))

    def apply(self, event: UsageEvent) -> None:
        """Apply an event, as it happens or in a replay."""
        if isinstance(event, UsageNoted):
            self._add(event)
        elif isinstance(event, UsageClosed):
            keys = list(self.rows)[: event.count]
            rows = [(key[0], key[1], key[2], key[3], self.rows.pop(key)) for key in keys]
            self.report = UsageReport(event.number, self.start_ms, self.end_ms, rows)
            self.number = event.number
            self.start_ms = self.end_ms if self.rows else 0
        elif isinstance(event, UsageWritten):
            self.report = None
        elif isinstance(event, UsageTaken):
            self.sources.pop(event.source, None)
            self.sources[event.source] = event.number
            if len(self.sources) > SOURCES_MAX:
                del self.sources[next(iter(self.sources))]

    def _add(self, event: UsageNoted) -> None:
        rows = self.rows
        if not rows:
            self.start_ms = event.at_ms
        self.end_ms = event.at_ms
        for tenant, user, door, resource, counts in event.rows:
            key = (tenant, user, door, resource)
            row = rows.get(key)
            if row is None:
                if len(rows) >= ROWS_MAX:
                    key = (tenant, user, door, "")
                    row = rows.get(key)
                if row is None:
                    row = rows[key] = [0] * len(METERS)
            for at in range(len(METERS)):
                row[at] += counts[at]
            if counts[MESSAGES_SENT] and self.owners.get(resource) != tenant:
                self.owners[resource] = tenant
                if len(self.owners) > OWNERS_MAX:
                    del self.owners[next(iter(self.owners))]

    def snapshot(self) -> list[Any]:
        """For `restore`."""
        report = self.report
        closed = [] if report is None else [report.number, report.start_ms, report.end_ms, report.rows]
        rows = [(*key, row) for key, row in self.rows.items()]
        return [
            self.start_ms,
            self.end_ms,
            self.number,
            rows,
            closed,
            list(self.sources.items()),
            list(self.owners.items()),
        ]

    def restore(self, state: list[Any]) -> None:
        """Take the state of a `snapshot`."""
        self.start_ms, self.end_ms, self.number, rows, closed, sources, owners = state[:7]
        self.rows = {(row[0], row[1], row[2], row[3]): list(row[4]) for row in rows}
        if closed:
            taken: list[Row] = [(row[0], row[1], row[2], row[3], list(row[4])) for row in closed[3]]
            self.report = UsageReport(closed[0], closed[1], closed[2], taken)
        self.sources = dict(sources)
        self.owners = dict(owners)

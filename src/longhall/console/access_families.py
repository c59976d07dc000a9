"""Permission among the metrics: requests refused for want of one, and those that report-only mode let pass."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Protocol

from longhall.console.metrics import Family, counter, gauge, labels


class AccessCounts(Protocol):
    """The counters of the guard of a process: refusals by action and kind, reports by user and need."""

    @property
    def refused(self) -> Mapping[str, int]: ...

    @property
    def reported(self) -> Mapping[tuple[str, str], int]: ...

    @property
    def unreadable(self) -> Collection[str]: ...


def access_families(guard: AccessCounts) -> Iterator[Family]:
    """The metrics of permission."""
    refused = []
    for needed, count in guard.refused.items():
        action, _, kind = needed.partition(" ")
        refused.append(("", labels(("action", action), ("kind", kind)), count))
    help_refused = "Permissions that users did not have, by action and kind of resource."
    yield Family("longhall_access_refused_total", "counter", help_refused, refused)
    help_reported = "Permissions that users did not have, in report-only mode: what was asked was carried out."
    yield counter("longhall_access_reported_total", help_reported, sum(guard.reported.values()))
    help_unreadable = (
        "Access rules of a newer version that this process cannot read; one that denies, denies its subject everything."
    )
    yield gauge("longhall_access_rules_unreadable", help_unreadable, len(guard.unreadable))

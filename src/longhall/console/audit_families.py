"""The audit trail among the metrics: records taken, and records dropped because the trail was full."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

from longhall.console.metrics import Family, counter


class AuditCounts(Protocol):
    """The counters of the audit trail of a process."""

    @property
    def recorded(self) -> int: ...

    @property
    def dropped(self) -> int: ...


def audit_families(audit: AuditCounts) -> Iterator[Family]:
    """The metrics of the audit trail."""
    yield counter("longhall_audit_records_total", "Records for the audit topic.", audit.recorded)
    yield counter("longhall_audit_dropped_total", "Records dropped because the audit trail was full.", audit.dropped)

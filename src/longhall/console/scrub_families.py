"""The background scrub among the metrics."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Protocol

from longhall.console.metrics import Family, counter, gauge, labels


class ScrubCounts(Protocol):
    """The counters of the scrub."""

    @property
    def bytes_read(self) -> int: ...

    @property
    def damage(self) -> Mapping[str, int]: ...

    @property
    def repairs(self) -> Mapping[str, int]: ...

    @property
    def damaged_now(self) -> int: ...

    @property
    def ratio(self) -> float: ...

    @property
    def completed_ms(self) -> int: ...

    @property
    def failures(self) -> int: ...


def scrub_families(scrub: ScrubCounts) -> Iterator[Family]:
    """The metrics of the scrub; damage and repairs by kind: segment, index, snapshot, log, identity."""
    yield counter("longhall_scrub_bytes_total", "Bytes at rest that were verified.", scrub.bytes_read)
    found = [("", labels(("kind", kind)), count) for kind, count in scrub.damage.items()]
    yield Family("longhall_scrub_damage_total", "counter", "Damaged files that the scrub found.", found)
    repaired = [("", labels(("kind", kind)), count) for kind, count in scrub.repairs.items()]
    yield Family("longhall_scrub_repaired_total", "counter", "Of them, those that are whole again.", repaired)
    yield gauge("longhall_scrub_damaged", "Files that are damaged now, as far as is known.", scrub.damaged_now)
    yield gauge("longhall_scrub_progress_ratio", "How much of the pass is done; 1 between two.", scrub.ratio)
    help_time = "When a pass over everything at rest ended last, in seconds since 1970; 0 for never."
    yield gauge("longhall_scrub_last_complete_timestamp_seconds", help_time, scrub.completed_ms / 1000)
    yield counter("longhall_scrub_failures_total", "Times that the scrub itself broke off.", scrub.failures)

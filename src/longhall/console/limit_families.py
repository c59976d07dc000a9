"""Limits of clients among the metrics."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

from longhall.console.metrics import Family, counter, gauge


class LimitCounts(Protocol):
    """The counters of the limits of clients."""

    throttled: int

    @property
    def buckets(self) -> int: ...


def limit_families(limits: LimitCounts) -> Iterator[Family]:
    """The metrics of the limits of clients."""
    throttled = "Kafka requests of clients over the limit of their user or client id: the clients were made to wait."
    yield counter("longhall_client_throttles_total", throttled, limits.throttled)
    yield gauge("longhall_limited_clients", "Clients whose transfers are counted against a limit.", limits.buckets)

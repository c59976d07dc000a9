"""Limits of clients among the metrics."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from longhall.console.metrics import Family, counter, gauge, labels


def limit_families(quota_throttles: int, throttled: Mapping[tuple[str, str], int], buckets: int) -> Iterator[Family]:
    """The metrics of the limits of clients. `throttled` is by door and class of operation."""
    quota = "Kafka requests of clients over the limit of their user or client id: the clients were made to wait."
    yield counter("longhall_client_throttles_total", quota, quota_throttles)
    told = "Requests over a rate limit: refused by SQS and HTTP, held back by Kafka, AMQP and STOMP."
    samples = [("", labels(("door", door), ("operation", kind)), float(n)) for (door, kind), n in throttled.items()]
    yield Family("longhall_rate_limited_total", "counter", told, samples)
    yield gauge("longhall_limited_clients", "Buckets in which the use of limits is counted.", buckets)

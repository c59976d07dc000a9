"""The limits of clients of one process: what is counted, who enforces it, and how the limits are shared.

Kafka's client quotas and the rate limits of all doors use the same buckets. In a node of several processes or of a
cluster the leader divides them (`node.rate_reporter`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, final

from longhall.broker.hall import Hall
from longhall.broker.pending import Pending
from longhall.cluster.rpc.operation import Operation
from longhall.console.limit_families import limit_families
from longhall.console.metrics import Registry
from longhall.directory.directory import Directory
from longhall.doors.kafka.limits import KafkaLimits
from longhall.doors.sqs.throttling import SqsThrottling
from longhall.front.client_limits import ClientLimits
from longhall.front.rate_buckets import RateBuckets
from longhall.front.rate_limits import RateLimits
from longhall.node.rate_reporter import RateReporter
from longhall.service.limits import LimitService
from longhall.service.local import LocalBroker


@final
class NodeLimits:
    """The objects of one process, by door."""

    def __init__(
        self,
        hall: Hall,
        broker: LocalBroker,
        directory: Directory,
        call: Callable[[Operation[Any]], Pending[Any]],
    ) -> None:
        """`call` carries out an operation at the leader of the catalogue."""
        LimitService(hall).register(broker)
        now_ms = hall.world.clock.monotonic_ms
        buckets = RateBuckets()
        clients = ClientLimits(directory, buckets)
        self.rates = RateLimits(directory, buckets, now_ms)
        self.kafka = KafkaLimits(directory, clients, self.rates, now_ms)
        self.sqs = SqsThrottling(self.rates)
        self._buckets = buckets
        self._clients = clients
        self.reporter = RateReporter(hall, buckets, call)

    def show(self, registry: Registry) -> None:
        """Add the metrics of the limits."""
        registry.collect(lambda: limit_families(self._clients.throttled, self.rates.throttled, len(self._buckets)))

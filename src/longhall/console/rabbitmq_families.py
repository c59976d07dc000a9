"""The metrics of rabbitmq_prometheus by its names, so that dashboards made for RabbitMQ show a node of Longhall.

    /metrics               totals of this node
    /metrics/per-object    the same, and the messages of each queue
    /metrics/detailed      the families that the query names, of each queue: `?family=queue_coarse_metrics&vhost=/`

A node shows its own connections, channels and traffic, and the leader of the hall shows the queues, so a sum over nodes
counts everything once. Counters exist from zero.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from http import HTTPStatus
from typing import Any, Final, final
from urllib.parse import parse_qsl

from longhall.console.http import Response, Work, plain
from longhall.console.management.overview import ERLANG, churn_of, total_counts
from longhall.console.management.queues import queue_rows, states_of
from longhall.console.management.sources import ManagedNode, NodeReport
from longhall.console.metrics import CONTENT_TYPE, Family, Registry, Sample, counter, gauge, histogram_samples, labels
from longhall.doors.amqp.server import VERSION
from longhall.doors.amqp.statistics import SIZE_BOUNDS, MessageCounts
from longhall.errors import LonghallError
from longhall.exchanges.names import names_of
from longhall.front.admission import Budget
from longhall.front.calls import HttpCall
from longhall.front.identity import NODE_ITSELF
from longhall.meters import Histogram
from longhall.service.exchange_operations import ListVirtualHosts
from longhall.service.policy_operations import QueueState
from longhall.service.router import Router

PROTOCOL: Final = labels(("protocol", "amqp091"))
QUERY_FIELDS_MAX: Final = 64
DETAILED: Final = ("queue_coarse_metrics", "queue_metrics", "queue_consumer_count", "vhost_status")

_GLOBAL: Final = (
    ("messages_received_total", "Messages received from publishers.", "received"),
    ("messages_received_confirm_total", "Messages received from publishers that use confirms.", "received_confirm"),
    ("messages_confirmed_total", "Messages confirmed to publishers.", "confirmed"),
    ("messages_routed_total", "Messages routed to a queue.", "routed"),
    ("messages_unroutable_dropped_total", "Messages without a queue that were dropped.", "unroutable_dropped"),
    ("messages_unroutable_returned_total", "Messages without a queue that were returned.", "unroutable_returned"),
    ("messages_delivered_total", "Messages delivered to consumers.", "delivered"),
    ("messages_delivered_consume_auto_ack_total", "Pushed, with automatic acknowledgement.", "consumed_automatic"),
    ("messages_delivered_consume_manual_ack_total", "Pushed, with acknowledgement by the client.", "consumed_manual"),
    ("messages_delivered_get_auto_ack_total", "Fetched, with automatic acknowledgement.", "got_automatic"),
    ("messages_delivered_get_manual_ack_total", "Fetched, with acknowledgement by the client.", "got_manual"),
    ("messages_get_empty_total", "Fetches that found no message.", "got_empty"),
    ("messages_redelivered_total", "Messages delivered again.", "redelivered"),
    ("messages_acknowledged_total", "Messages acknowledged by consumers.", "acknowledged"),
)
_CHURN: Final = (
    ("connections_opened_total", "Connections opened.", "connection_created"),
    ("connections_closed_total", "Connections closed.", "connection_closed"),
    ("channels_opened_total", "Channels opened.", "channel_created"),
    ("channels_closed_total", "Channels closed.", "channel_closed"),
    ("queues_declared_total", "Queue declarations.", "queue_declared"),
    ("queues_created_total", "Queues created by clients.", "queue_created"),
    ("queues_deleted_total", "Queues deleted by clients.", "queue_deleted"),
)
_Value = Callable[[QueueState], float]
_OF_QUEUES: Final[tuple[tuple[str, str, str, _Value], ...]] = (
    ("queue_coarse_metrics", "queue_messages_ready", "Messages ready.", lambda one: one.available),
    ("queue_coarse_metrics", "queue_messages_unacked", "Messages not acknowledged.", lambda one: one.in_flight),
    ("queue_coarse_metrics", "queue_messages", "Both.", lambda one: one.available + one.in_flight),
    ("queue_consumer_count", "queue_consumers", "Consumers of the queue.", lambda one: one.consumers),
    ("queue_metrics", "queue_messages_bytes", "Bytes of the queue on disk.", lambda one: one.bytes),
    ("queue_metrics", "queue_messages_published_total", "Messages that came in.", lambda one: one.sends),
    ("queue_metrics", "queue_messages_delivered_total", "Deliveries.", lambda one: one.deliveries),
    ("queue_metrics", "queue_messages_acked_total", "Messages acknowledged.", lambda one: one.settles),
)


@final
class RabbitmqMetrics:
    """The service below /metrics. Fulfils `console.http.Service`."""

    prefix = "/metrics"
    body_bytes_max = 0

    def __init__(self, node: ManagedNode, service: Router) -> None:
        self.budget = Budget(0)
        self._node = node
        self._service = service
        self._aggregated = self._registry("aggregated", per_queue=False)
        self._per_object = self._registry("per-object", per_queue=True)

    def _registry(self, endpoint: str, per_queue: bool) -> Registry:
        registry = Registry()
        registry.collect(partial(self._identity, endpoint))
        registry.collect(partial(self._totals, per_queue))
        return registry

    def login(self, call: HttpCall) -> None:
        """Nobody logs in here."""

    def begin(self, call: HttpCall, path: str, query: str) -> Work:
        """See `console.http.Service`."""
        if call.method not in (b"GET", b"HEAD"):
            return Work(_answered(plain(HTTPStatus.METHOD_NOT_ALLOWED, "use GET")), False)
        if path in ("", "/"):
            return Work(self._rendered(self._aggregated), False)
        if path == "/per-object":
            return Work(self._rendered(self._per_object), False)
        if path == "/detailed":
            return Work(self._detailed(query), False)
        known = "not found; there is /metrics /metrics/per-object /metrics/detailed"
        return Work(_answered(plain(HTTPStatus.NOT_FOUND, known)), False)

    def overloaded(self) -> Response | None:
        return None

    def close(self) -> None:
        """Nothing waits here."""

    async def _rendered(self, registry: Registry) -> Response:
        try:
            return Response(HTTPStatus.OK, await registry.render(), CONTENT_TYPE)
        except LonghallError as error:
            return plain(HTTPStatus.SERVICE_UNAVAILABLE, str(error))

    async def _detailed(self, query: str) -> Response:
        try:
            fields = parse_qsl(query, keep_blank_values=True, max_num_fields=QUERY_FIELDS_MAX)
        except ValueError:
            return plain(HTTPStatus.BAD_REQUEST, "the query cannot be read")
        families = [value for name, value in fields if name == "family"]
        hosts = [value for name, value in fields if name == "vhost"]
        unknown = [name for name in families if name not in DETAILED]
        if unknown:
            text = f"no family {', '.join(unknown)}; there is {' '.join(DETAILED)}"
            return plain(HTTPStatus.BAD_REQUEST, text)
        registry = Registry()
        registry.collect(partial(self._identity, "detailed"))
        registry.collect(partial(self._families, families, hosts))
        return await self._rendered(registry)

    # Collectors

    def _identity(self, endpoint: str) -> Iterator[Family]:
        facts = self._node.here(False).facts
        cluster = self._node.cluster_name
        name = (
            self._node.leader_name() if self._node.shows_queues else self._node.name
        )  # Of several workers: the first.
        identity = labels(
            ("rabbitmq_node", name),
            ("rabbitmq_cluster", cluster),
            ("rabbitmq_cluster_permanent_id", cluster),
            ("rabbitmq_endpoint", endpoint),
        )
        yield Family("rabbitmq_identity_info", "untyped", "Node and cluster.", [("", identity, 1)])
        build = labels(
            ("rabbitmq_version", VERSION),
            ("prometheus_plugin_version", VERSION),
            ("erlang_version", ERLANG),
            ("product_name", "Longhall"),
            ("product_version", facts.version),
        )
        yield Family("rabbitmq_build_info", "untyped", "The version whose behaviour this is.", [("", build, 1)])

    async def _totals(self, per_queue: bool) -> list[Family]:
        reports = await self._node.own(False)
        counts = total_counts(reports)
        states = await self._states()
        doors = [report.door for report in reports]
        consumers = sum(one.consumers for one in doors)
        return [
            gauge("rabbitmq_connections", "Connections currently open.", sum(one.open_connections for one in doors)),
            gauge("rabbitmq_channels", "Channels currently open.", sum(one.open_channels for one in doors)),
            gauge("rabbitmq_consumers", "Consumers currently connected.", consumers),
            gauge("rabbitmq_queues", "Queues available, at the leader.", len(states)),
            *(_queue_families("rabbitmq_", states, DETAILED) if per_queue else _depth_families(states)),
            _of_protocol("rabbitmq_global_consumers", "gauge", "Current consumers.", consumers),
            _of_protocol(
                "rabbitmq_global_publishers", "gauge", "Current publishers.", sum(one.publishers for one in doors)
            ),
            *_counter_families(reports, counts),
            *_process_families(reports),
        ]

    async def _states(self, hosts: list[str] | None = None) -> list[QueueState]:
        """The queues, if this node leads the hall."""
        if not self._node.shows_queues:
            return []
        rows = await queue_rows(self._service, NODE_ITSELF, None)
        names = [row["hall"] for row in rows if not hosts or row["vhost"] in hosts]
        return await states_of(self._service, NODE_ITSELF, names)

    async def _families(self, families: list[str], hosts: list[str]) -> list[Family]:
        found = _queue_families("rabbitmq_detailed_", await self._states(hosts) if families else [], families)
        if "vhost_status" in families and self._node.shows_queues:
            names = await self._service.call(ListVirtualHosts(), NODE_ITSELF)
            samples = [("", labels(("vhost", name)), 1.0) for name in names if not hosts or name in hosts]
            found.append(Family("rabbitmq_cluster_vhost_status", "gauge", "1 if the virtual host works.", samples))
        return found


def _counter_families(reports: list[NodeReport], counts: MessageCounts) -> Iterator[Family]:
    for name, text, field in _GLOBAL:
        yield _of_protocol(f"rabbitmq_global_{name}", "counter", text, getattr(counts, field))
    churn = churn_of(reports, counts)
    for name, text, field in _CHURN:
        yield counter(f"rabbitmq_{name}", text, churn[field])
    sizes = Histogram(SIZE_BOUNDS)
    sizes.counts = list(counts.sizes or sizes.counts)
    sizes.total = counts.sizes_total
    text = "Sizes of the messages that were received."
    yield Family("rabbitmq_message_size_bytes", "histogram", text, histogram_samples(sizes, PROTOCOL))


def _process_families(reports: list[NodeReport]) -> Iterator[Family]:
    """The processes of the node together. Memory and disk are bounded for all at once, as this process sees it."""
    facts = [report.facts for report in reports]
    first = facts[0]
    yield gauge("rabbitmq_process_resident_memory_bytes", "Resident memory.", sum(one.resident_bytes for one in facts))
    yield gauge(
        "rabbitmq_resident_memory_limit_bytes",
        "Resident memory at which publishers are held back: what is used now, and what is left of the memory budget.",
        sum(one.resident_bytes + one.memory_limit_bytes - one.memory_bytes for one in facts),
    )
    yield gauge("rabbitmq_disk_space_available_bytes", "Free space of the data directory.", first.disk_free_bytes)
    yield gauge(
        "rabbitmq_disk_space_available_limit_bytes", "Publishers are refused below this.", first.disk_limit_bytes
    )
    yield gauge("rabbitmq_process_open_fds", "Open descriptors.", sum(one.descriptors for one in facts))
    yield gauge("rabbitmq_process_max_fds", "Descriptors that may be open.", sum(one.descriptors_max for one in facts))
    yield gauge("rabbitmq_process_open_tcp_sockets", "Open connections of clients.", sum(one.sockets for one in facts))
    yield gauge(
        "rabbitmq_process_max_tcp_sockets", "Connections that may be open.", sum(one.sockets_max for one in facts)
    )
    uptime_s = max(first.now_ms - first.started_ms, 0) / 1000
    yield gauge("rabbitmq_erlang_uptime_seconds", "Time since the node started; it has no Erlang.", uptime_s)
    yield gauge("rabbitmq_alarms_memory_used_watermark", "1 if memory is short.", float(first.memory_alarm))
    yield gauge("rabbitmq_alarms_free_disk_space_watermark", "1 if the disk is full.", float(first.disk_alarm))


def _depth_families(states: list[QueueState]) -> Iterator[Family]:
    ready, unacked = sum(one.available for one in states), sum(one.in_flight for one in states)
    yield gauge("rabbitmq_queue_messages", "Messages ready or unacknowledged, at the leader.", ready + unacked)
    yield gauge("rabbitmq_queue_messages_ready", "Messages ready to be delivered, at the leader.", ready)
    yield gauge("rabbitmq_queue_messages_unacked", "Messages delivered and not acknowledged, at the leader.", unacked)


def _queue_families(prefix: str, states: list[QueueState], families: tuple[str, ...] | list[str]) -> list[Family]:
    """One sample for each queue."""
    labelled = [(one, _queue_labels(one)) for one in states]
    found: list[Family] = []
    for family, name, text, value in _OF_QUEUES:
        if family not in families:
            continue
        samples: list[Sample] = [("", text_of, value(one)) for one, text_of in labelled]
        found.append(Family(prefix + name, "counter" if name.endswith("_total") else "gauge", text, samples))
    return found


def _queue_labels(one: QueueState) -> str:
    amqp = one.settings.amqp
    host, name = (amqp.host, amqp.name) if amqp is not None else names_of(one.name)
    return labels(("vhost", host), ("queue", name))


def _of_protocol(name: str, kind: Any, text: str, value: float) -> Family:
    return Family(name, kind, text, [("", PROTOCOL, value)])


async def _answered(response: Response) -> Response:
    return response

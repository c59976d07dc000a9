"""Which number of the hall is shown under which name.

Dashboards that people already have look for two families of names: those of kafka_exporter (`kafka_topic_*`,
`kafka_consumergroup_*`) and those that the JMX exporter makes of Kafka's own (`kafka_server_*`, `kafka_network_*`,
`kafka_log_*`, `kafka_controller_*`). What only Longhall has is called `longhall_*`. As with Kafka, traffic counters
appear once without a topic for the node and once for each topic, so sums are taken over `topic=""` or `topic!=""`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, final

from longhall.console.metrics import Family, Labels, Registry
from longhall.console.sources import GroupStatus, HallStatus, RequestStatus, TopicStatus, Traffic
from longhall.console.windows import QuantileWindow
from longhall.world.ports import Clock

_QUANTILES: Final = (0.5, 0.75, 0.95, 0.98, 0.99, 0.999)

_TRAFFIC: Final = (
    ("messages_in", "messagesin", "Messages taken."),
    ("bytes_in", "bytesin", "Bytes of record batches taken."),
    ("bytes_out", "bytesout", "Bytes of record batches given to consumers."),
    ("bytes_rejected", "bytesrejected", "Bytes of record batches refused for their size."),
    ("produce_requests", "totalproducerequests", "Appends asked for, a partition each."),
    ("fetch_requests", "totalfetchrequests", "Reads asked for, a partition each."),
    ("produce_requests_failed", "failedproducerequests", "Appends refused."),
    ("fetch_requests_failed", "failedfetchrequests", "Reads refused."),
)


@final
class HallFamilies:
    """Collectors over one hall."""

    def __init__(self, hall: HallStatus, clock: Clock) -> None:
        self._hall = hall
        self._clock = clock
        self._windows: dict[str, QuantileWindow] = {}

    def register(self, registry: Registry) -> None:
        """Show everything that the hall tells."""
        for collector in (self.topics, self.groups, self.requests, self.storage):
            registry.collect(collector)

    def topics(self) -> Iterator[Family]:
        """Brokers, topics, partitions and traffic."""
        topics = self._hall.topics()
        yield from _broker_families(self._hall)
        yield Family("kafka_server_replicamanager_partitioncount", "gauge", "Partitions on this node.").add(
            sum(len(topic.partitions) for topic in topics)
        )
        yield Family("kafka_server_replicamanager_leadercount", "gauge", "Partitions that this node leads.").add(
            sum(partition.leader >= 0 for topic in topics for partition in topic.partitions)
        )
        yield from _partition_families(topics)
        yield from _traffic_families(self._hall.traffic(), topics)

    def groups(self) -> Iterator[Family]:
        """Members, offsets and lag, in messages and in seconds."""
        yield from _group_families(self._hall.groups())

    def requests(self) -> Iterator[Family]:
        """How many requests of which kind there were, how long they took and how they failed."""
        now_ms = self._clock.monotonic_ms()
        times = Family(
            "kafka_network_requestmetrics_totaltimems", "summary", "Milliseconds from request to reply, lately."
        )
        seconds = Family("longhall_request_seconds", "histogram", "Seconds from request to reply.")
        counts = Family("kafka_network_requestmetrics_requests_total", "counter", "Requests answered.")
        errors = Family("kafka_network_requestmetrics_errors_total", "counter", "Errors answered, by their name.")
        for request in self._hall.requests():
            label = ("request", request.name)
            count = request.seconds.count
            quantiles = self._quantiles(request, now_ms)
            times.add_summary(quantiles, request.seconds.total * 1000, count, label)
            seconds.add_histogram(request.seconds, label)
            counts.add(count, label)
            for error, error_count in request.errors.items():
                errors.add(error_count, label, ("error", error))
        yield from (times, seconds, counts, errors)

    def _quantiles(self, request: RequestStatus, now_ms: int) -> list[tuple[float, float]]:
        window = self._windows.setdefault(request.name, QuantileWindow())
        recent = window.recent(request.seconds, now_ms)
        return [(share, 1000 * recent.quantile(share)) for share in _QUANTILES]

    def storage(self) -> Iterator[Family]:
        """The log of the node, its memory and its connections."""
        state = self._hall.storage()
        gauge, counter = _gauge, _counter
        yield gauge("kafka_server_socketservermetrics_connection_count", "Open connections.", state.connections)
        yield gauge("longhall_connections", "Open connections.", state.connections)
        yield counter(
            "longhall_connections_refused_total", "Connections refused by a bound.", state.connections_refused
        )
        yield counter("longhall_wal_bytes_total", "Bytes written to the write-ahead log.", state.wal_bytes_written)
        yield gauge("longhall_wal_kept_bytes", "Bytes of the write-ahead log on disk.", state.wal_bytes_kept)
        yield counter("longhall_commit_rounds_total", "Commit rounds, one sync each.", state.commit_rounds)
        yield Family("longhall_sync_seconds", "histogram", "Seconds that a sync took.").add_histogram(
            state.sync_seconds
        )
        yield gauge("longhall_memory_used_bytes", "Bytes of the memory budget in use.", state.memory_used_bytes)
        yield gauge("longhall_memory_limit_bytes", "The memory budget.", state.memory_limit_bytes)
        yield counter("longhall_checkpoints_total", "Checkpoints made.", state.checkpoints)
        yield gauge(
            "longhall_checkpoint_age_seconds", "Seconds since the last checkpoint.", state.checkpoint_age_seconds
        )
        yield gauge("longhall_recovery_seconds", "Seconds that recovery took at the start.", state.recovery_seconds)
        yield gauge("longhall_damaged_ranges", "Ranges of the log that are refused to readers.", state.damaged_ranges)
        yield gauge("longhall_disk_free_bytes", "Free bytes where the data directory is.", state.disk_free_bytes)
        yield gauge("longhall_disk_full", "1 while producing is refused for want of space.", int(state.disk_full))
        yield gauge("longhall_transactions_open", "Transactions that are not finished.", state.transactions_open)
        yield gauge("longhall_ready", "1 when every door is open.", int(self._hall.ready() is None))


def _gauge(name: str, help: str, value: float) -> Family:
    return Family(name, "gauge", help).add(value)


def _counter(name: str, help: str, value: float) -> Family:
    return Family(name, "counter", help).add(value)


def _broker_families(hall: HallStatus) -> Iterator[Family]:
    brokers = hall.brokers()
    yield _gauge("kafka_brokers", "Brokers in the cluster.", len(brokers))
    info = Family("kafka_broker_info", "gauge", "Which broker is where.")
    for broker in brokers:
        info.add(1, ("address", broker.address), ("id", str(broker.number)))
    yield info
    yield _gauge("kafka_controller_kafkacontroller_activecontrollercount", "1 if this node manages the cluster.", 1)


def _partition_families(topics: Sequence[TopicStatus]) -> Iterator[Family]:
    count = Family("kafka_topic_partitions", "gauge", "Partitions of a topic.")
    newest = Family("kafka_topic_partition_current_offset", "gauge", "The offset that the next message gets.")
    oldest = Family("kafka_topic_partition_oldest_offset", "gauge", "The offset of the oldest message kept.")
    leader = Family("kafka_topic_partition_leader", "gauge", "The broker that leads the partition.")
    replicas = Family("kafka_topic_partition_replicas", "gauge", "Copies of the partition.")
    in_sync = Family("kafka_topic_partition_in_sync_replica", "gauge", "Copies that are in sync.")
    behind = Family("kafka_topic_partition_under_replicated_partition", "gauge", "1 if a copy is not in sync.")
    size = Family("kafka_log_log_size", "gauge", "Bytes of the partition on disk.")
    segments = Family("kafka_log_log_numlogsegments", "gauge", "Segments of the partition.")
    behind_count = offline_count = 0
    for topic in topics:
        count.add(len(topic.partitions), ("topic", topic.name))
        for partition in topic.partitions:
            labels: Labels = (("partition", str(partition.number)), ("topic", topic.name))
            is_behind = partition.in_sync_replicas < partition.replicas
            behind_count += is_behind
            offline_count += partition.leader < 0
            newest.add(partition.log_end_offset, *labels)
            oldest.add(partition.log_start_offset, *labels)
            leader.add(partition.leader, *labels)
            replicas.add(partition.replicas, *labels)
            in_sync.add(partition.in_sync_replicas, *labels)
            behind.add(int(is_behind), *labels)
            size.add(partition.size_bytes, *labels)
            segments.add(partition.segments, *labels)
    yield from (count, newest, oldest, leader, replicas, in_sync, behind, size, segments)
    yield _gauge(
        "kafka_server_replicamanager_underreplicatedpartitions", "Partitions with a copy behind.", behind_count
    )
    yield _gauge("kafka_controller_kafkacontroller_offlinepartitionscount", "Partitions nobody leads.", offline_count)


def _traffic_families(whole: Traffic, topics: Sequence[TopicStatus]) -> Iterator[Family]:
    for attribute, word, help in _TRAFFIC:
        family = Family(f"kafka_server_brokertopicmetrics_{word}_total", "counter", help).add(getattr(whole, attribute))
        for topic in topics:
            if topic.traffic is not None:
                family.add(getattr(topic.traffic, attribute), ("topic", topic.name))
        yield family


def _group_families(groups: Sequence[GroupStatus]) -> Iterator[Family]:
    members = Family("kafka_consumergroup_members", "gauge", "Members of a consumer group.")
    state = Family("kafka_consumergroup_state", "gauge", "1 for the state that the group is in.")
    offset = Family("kafka_consumergroup_current_offset", "gauge", "The committed offset.")
    offset_sum = Family("kafka_consumergroup_current_offset_sum", "gauge", "The committed offsets of a topic together.")
    lag = Family("kafka_consumergroup_lag", "gauge", "Messages between the committed offset and the end.")
    lag_sum = Family("kafka_consumergroup_lag_sum", "gauge", "The lag in all partitions of a topic together.")
    seconds = Family("kafka_consumergroup_lag_seconds", "gauge", "How long the next message of the group has waited.")
    for group in groups:
        label = ("consumergroup", group.name)
        members.add(group.members, label)
        state.add(1, label, ("state", group.state))
        sums: dict[str, tuple[int, int]] = {}
        for at in group.offsets:
            labels: Labels = (label, ("partition", str(at.partition)), ("topic", at.topic))
            offset.add(at.committed_offset, *labels)
            lag.add(at.lag, *labels)
            if at.lag_seconds is not None:
                seconds.add(at.lag_seconds, *labels)
            offsets, lags = sums.get(at.topic, (0, 0))
            sums[at.topic] = (offsets + at.committed_offset, lags + at.lag)
        for topic, (offsets, lags) in sums.items():
            offset_sum.add(offsets, label, ("topic", topic))
            lag_sum.add(lags, label, ("topic", topic))
    yield from (members, state, offset, offset_sum, lag, lag_sum, seconds)

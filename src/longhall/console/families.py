"""The metrics of a hall: which value has which name.

Dashboards that people already have look for two families of names: those of kafka_exporter (`kafka_topic_*`,
`kafka_consumergroup_*`) and those that the JMX exporter makes of Kafka's own (`kafka_server_*`, `kafka_network_*`,
`kafka_log_*`, `kafka_controller_*`). What only Longhall has is called `longhall_*`. As with Kafka, traffic counters
appear once without a topic for the node and once for each topic, so sums are taken over `topic=""` or `topic!=""`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Final, NamedTuple, final

from longhall.console.metrics import (
    Family,
    Registry,
    Sample,
    counter,
    gathered,
    gauge,
    histogram_samples,
    labels,
    summary_samples,
)
from longhall.console.queue_families import queue_families
from longhall.console.sources import (
    GroupOffsetStatus,
    GroupStatus,
    HallStatus,
    PartitionStatus,
    RequestStatus,
    TopicStatus,
    Traffic,
)
from longhall.console.windows import QuantileWindow
from longhall.world.ports import Clock

SLICE_QUEUES: Final = 25  # Per turn of the loop: a queue reads its log for its oldest message.

_QUANTILES: Final = (0.5, 0.75, 0.95, 0.98, 0.99, 0.999)


class _OfPartitions(NamedTuple):
    """A gauge with one sample a partition."""

    name: str
    help: str
    value: Callable[[PartitionStatus], float]


class _OfTraffic(NamedTuple):
    """A counter with one sample for the node and one a topic."""

    word: str
    help: str
    value: Callable[[Traffic], int]


_PARTITION_GAUGES: Final = (
    _OfPartitions(
        "kafka_topic_partition_current_offset", "The offset of the next message.", lambda at: at.log_end_offset
    ),
    _OfPartitions("kafka_topic_partition_oldest_offset", "The oldest offset kept.", lambda at: at.log_start_offset),
    _OfPartitions("kafka_topic_partition_leader", "The broker that leads the partition.", lambda at: at.leader),
    _OfPartitions("kafka_topic_partition_replicas", "Copies of the partition.", lambda at: at.replicas),
    _OfPartitions("kafka_topic_partition_in_sync_replica", "Copies that are in sync.", lambda at: at.in_sync_replicas),
    _OfPartitions(
        "kafka_topic_partition_under_replicated_partition",
        "1 if a copy is not in sync.",
        lambda at: int(at.in_sync_replicas < at.replicas),
    ),
    _OfPartitions("kafka_log_log_size", "Bytes of the partition on disk.", lambda at: at.size_bytes),
    _OfPartitions("kafka_log_log_numlogsegments", "Segments of the partition.", lambda at: at.segments),
)

_TRAFFIC_COUNTERS: Final = (
    _OfTraffic("messagesin", "Messages taken.", lambda of: of.messages_in),
    _OfTraffic("bytesin", "Bytes of record batches taken.", lambda of: of.bytes_in),
    _OfTraffic("bytesout", "Bytes of record batches given to consumers.", lambda of: of.bytes_out),
    _OfTraffic("bytesrejected", "Bytes of record batches refused for their size.", lambda of: of.bytes_rejected),
    _OfTraffic("totalproducerequests", "Appends asked for, a partition each.", lambda of: of.produce_requests),
    _OfTraffic("totalfetchrequests", "Reads asked for, a partition each.", lambda of: of.fetch_requests),
    _OfTraffic("failedproducerequests", "Appends refused.", lambda of: of.produce_requests_failed),
    _OfTraffic("failedfetchrequests", "Reads refused.", lambda of: of.fetch_requests_failed),
)


@final
class HallFamilies:
    """Collectors over one hall."""

    def __init__(self, hall: HallStatus, clock: Clock) -> None:
        self._hall = hall
        self._clock = clock
        self._windows: dict[str, QuantileWindow] = {}

    def register(self, registry: Registry) -> None:
        """Register all collectors of the hall."""
        for collector in (self.topics, self.groups, self.queues, self.requests, self.storage):
            registry.collect(collector)

    async def topics(self) -> list[Family]:
        """Brokers, topics, partitions and traffic."""
        topics = await gathered(self._hall.topics())
        partitions = [partition for topic in topics for partition in topic.partitions]
        behind = sum(partition.in_sync_replicas < partition.replicas for partition in partitions)
        led = sum(partition.leader >= 0 for partition in partitions)
        return [
            *_broker_families(self._hall),
            gauge("kafka_server_replicamanager_partitioncount", "Partitions on this node.", len(partitions)),
            gauge("kafka_server_replicamanager_leadercount", "Partitions that are led here.", led),
            gauge("kafka_server_replicamanager_underreplicatedpartitions", "Partitions with a copy behind.", behind),
            gauge(
                "kafka_controller_kafkacontroller_offlinepartitionscount",
                "Partitions that nobody leads.",
                len(partitions) - led,
            ),
            *_partition_families(topics),
            *_traffic_families(self._hall.traffic(), topics),
        ]

    async def groups(self) -> list[Family]:
        """Members, offsets and lag, in messages and in seconds."""
        groups = await gathered(self._hall.groups())
        more = await self._hall.offsets_elsewhere(groups)
        whole = [replace(group, offsets=[*group.offsets, *some]) for group, some in zip(groups, more, strict=True)]
        return list(_group_families(whole))

    async def queues(self) -> list[Family]:
        """Depth, age and outcomes of the messages in queues."""
        return list(queue_families(await gathered(self._hall.queues(), SLICE_QUEUES)))

    def requests(self) -> Iterator[Family]:
        """Requests by kind: count, latency and errors."""
        every_kind = list(self._hall.requests())
        requests = [each for each in every_kind if each.seconds.count]  # Distributions of nothing are long and empty.
        now_ms = self._clock.monotonic_ms()
        yield Family(
            "kafka_network_requestmetrics_totaltimems",
            "summary",
            "Milliseconds from request to reply, lately.",
            (sample for request in requests for sample in self._summary(request, now_ms)),
        )
        yield Family(
            "longhall_request_seconds",
            "histogram",
            "Seconds from request to reply.",
            (sample for each in requests for sample in histogram_samples(each.seconds, labels(("request", each.name)))),
        )
        yield Family(
            "kafka_network_requestmetrics_requests_total",
            "counter",
            "Requests answered.",
            (("", labels(("request", each.name)), each.seconds.count) for each in every_kind),
        )
        yield Family(
            "kafka_network_requestmetrics_errors_total",
            "counter",
            "Errors answered, by their name.",
            (
                ("", labels(("request", each.name), ("error", error)), count)
                for each in every_kind
                for error, count in each.errors.items()
            ),
        )

    def _summary(self, request: RequestStatus, now_ms: int) -> Iterator[Sample]:
        window = self._windows.setdefault(request.name, QuantileWindow())
        recent = window.recent(request.seconds, now_ms)
        quantiles = [(share, 1000 * recent.quantile(share)) for share in _QUANTILES]
        labelled = labels(("request", request.name))
        return summary_samples(quantiles, request.seconds.total * 1000, request.seconds.count, labelled)

    def storage(self) -> Iterator[Family]:
        """The log of the node, its memory and its connections."""
        state = self._hall.storage()
        yield gauge("kafka_server_socketservermetrics_connection_count", "Open connections.", state.connections)
        yield gauge("longhall_connections", "Open connections.", state.connections)
        yield counter(
            "longhall_connections_refused_total", "Connections refused by a bound.", state.connections_refused
        )
        yield Family(
            "longhall_door_connections",
            "gauge",
            "Open connections of a door.",
            [("", labels(("door", door.name)), door.connections) for door in state.doors],
        )
        yield Family(
            "longhall_door_connections_refused_total",
            "counter",
            "Connections that a door refused by a bound.",
            [("", labels(("door", door.name)), door.refused) for door in state.doors],
        )
        yield counter(
            "longhall_connections_held_back_total",
            "Times that a connection was not read for a while, for others to have their share.",
            state.connections_held_back,
        )
        yield counter("longhall_wal_bytes_total", "Bytes written to the write-ahead log.", state.wal_bytes_written)
        yield gauge("longhall_wal_kept_bytes", "Bytes of the write-ahead log on disk.", state.wal_bytes_kept)
        yield counter("longhall_commit_rounds_total", "Commit rounds, one sync each.", state.commit_rounds)
        syncs = histogram_samples(state.sync_seconds)
        yield Family("longhall_sync_seconds", "histogram", "Seconds that a sync took.", syncs)
        yield gauge("longhall_memory_used_bytes", "Bytes of the memory budget in use.", state.memory_used_bytes)
        yield gauge("longhall_memory_limit_bytes", "The memory budget.", state.memory_limit_bytes)
        yield counter(
            "longhall_requests_given_up_total",
            "Requests that were given up half arrived, because memory was short and they were slow or the youngest.",
            state.requests_given_up,
        )
        yield gauge(
            "longhall_uncommitted_bytes",
            "Bytes that this node has appended as leader and that wait for their commit.",
            state.uncommitted_bytes,
        )
        yield gauge(
            "longhall_uncommitted_limit_bytes",
            "Beyond it messages are refused until some are committed; 256 bytes are added for each entry.",
            state.uncommitted_limit_bytes,
        )
        yield gauge(
            "longhall_backpressure",
            "1 while messages are refused because too much waits for its commit or for a checkpoint.",
            int(state.backed_up),
        )
        yield counter("longhall_backpressure_refusals_total", "Messages refused for that.", state.backlog_refusals)
        yield counter("longhall_checkpoints_total", "Checkpoints made.", state.checkpoints)
        yield gauge(
            "longhall_checkpoint_age_seconds", "Seconds since the last checkpoint.", state.checkpoint_age_seconds
        )
        yield gauge("longhall_recovery_seconds", "Seconds that recovery took at the start.", state.recovery_seconds)
        yield gauge("longhall_damaged_ranges", "Ranges of the log that are refused to readers.", state.damaged_ranges)
        yield counter(
            "longhall_mended_ranges_total", "Damaged ranges put right from another node.", state.mended_ranges
        )
        cut = "Bytes that the last start cut off the end of the write-ahead log, because they were not whole."
        yield gauge("longhall_wal_tail_cut_bytes", cut, state.log_cut_bytes)
        corrected = "Flipped bits in the write-ahead log that the last start put right."
        yield gauge("longhall_wal_corrected_bits", corrected, state.log_corrections)
        yield gauge("longhall_disk_free_bytes", "Free bytes where the data directory is.", state.disk_free_bytes)
        yield gauge("longhall_disk_free_files", "Free inodes where the data directory is.", state.disk_free_files)
        yield gauge("longhall_disk_full", "1 while producing is refused for want of space.", int(state.disk_full))
        yield gauge("longhall_transactions_open", "Transactions that are not finished.", state.transactions_open)
        failures = [("", labels(("task", name)), count) for name, count in sorted(state.background_failures.items())]
        help_failures = "Failures of background tasks; each is tried again, or stops the node."
        yield Family("longhall_background_failures_total", "counter", help_failures, failures)
        failing: list[Sample] = [("", labels(("task", name)), 1) for name in state.background_failing]
        yield Family("longhall_background_failing", "gauge", "1 for a task whose last run failed.", failing)
        yield gauge(
            "longhall_ready", "1 when this node works; /readyz asks the leader too.", int(not self._hall.ready())
        )


def _broker_families(hall: HallStatus) -> Iterator[Family]:
    brokers = list(hall.brokers())
    yield gauge("kafka_brokers", "Brokers in the cluster.", len(brokers))
    rows = [("", labels(("address", broker.address), ("id", str(broker.number))), 1) for broker in brokers]
    yield Family("kafka_broker_info", "gauge", "Which broker is where.", rows)
    yield gauge("kafka_controller_kafkacontroller_activecontrollercount", "1 if this node manages the cluster.", 1)


def _partition_families(topics: Sequence[TopicStatus]) -> Iterator[Family]:
    counts = (("", labels(("topic", topic.name)), len(topic.partitions)) for topic in topics)
    yield Family("kafka_topic_partitions", "gauge", "Partitions of a topic.", counts)
    # All families share the same labels, so they are formatted once.
    labelled: dict[int, str] = {}

    def samples(value: Callable[[PartitionStatus], float]) -> Iterator[Sample]:
        for topic in topics:
            for partition in topic.partitions:
                text = labelled.get(id(partition))
                if text is None:
                    text = labels(("partition", str(partition.number)), ("topic", topic.name))
                    labelled[id(partition)] = text
                yield "", text, value(partition)

    for row in _PARTITION_GAUGES:
        yield Family(row.name, "gauge", row.help, samples(row.value))


def _traffic_families(whole: Traffic, topics: Sequence[TopicStatus]) -> Iterator[Family]:
    def samples(value: Callable[[Traffic], int]) -> Iterator[Sample]:
        yield "", "", value(whole)
        for topic in topics:
            if topic.traffic is not None:
                yield "", labels(("topic", topic.name)), value(topic.traffic)

    for row in _TRAFFIC_COUNTERS:
        yield Family(f"kafka_server_brokertopicmetrics_{row.word}_total", "counter", row.help, samples(row.value))
    yield Family("longhall_throttled_total", "counter", "Sends beyond a quota.", samples(lambda of: of.throttled))


def _group_families(groups: Sequence[GroupStatus]) -> Iterator[Family]:
    members = (("", labels(("consumergroup", group.name)), group.members) for group in groups)
    yield Family("kafka_consumergroup_members", "gauge", "Members of a consumer group.", members)
    states = (("", labels(("consumergroup", group.name), ("state", group.state)), 1) for group in groups)
    yield Family("kafka_consumergroup_state", "gauge", "1 for the state that the group is in.", states)

    def each(value: Callable[[GroupOffsetStatus], float | None]) -> Iterator[Sample]:
        for group in groups:
            for at in group.offsets:
                shown = value(at)
                if shown is not None:
                    place = (("partition", str(at.partition)), ("topic", at.topic))
                    yield "", labels(("consumergroup", group.name), *place), shown

    def summed(value: Callable[[GroupOffsetStatus], int]) -> Iterator[Sample]:
        for group in groups:
            sums: dict[str, int] = {}
            for at in group.offsets:
                sums[at.topic] = sums.get(at.topic, 0) + value(at)
            for topic, total in sums.items():
                yield "", labels(("consumergroup", group.name), ("topic", topic)), total

    name = "kafka_consumergroup"
    yield Family(f"{name}_current_offset", "gauge", "The committed offset.", each(lambda at: at.committed_offset))
    yield Family(
        f"{name}_current_offset_sum",
        "gauge",
        "The committed offsets of a topic.",
        summed(lambda at: at.committed_offset),
    )
    yield Family(f"{name}_lag", "gauge", "Messages that were not consumed yet.", each(lambda at: at.lag))
    yield Family(f"{name}_lag_sum", "gauge", "The same in all partitions of a topic.", summed(lambda at: at.lag))
    help_seconds = "How long the next message of the group has waited."
    yield Family(f"{name}_lag_seconds", "gauge", help_seconds, each(lambda at: at.lag_seconds))

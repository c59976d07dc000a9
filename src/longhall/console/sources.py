"""The state of a node as the console reads it: values, and the interface that provides them.

The node fulfils `HallStatus` from the broker's state. Topics and groups may be generated one by one: the console takes
some in each turn of the loop, so a generator must iterate over a copy of its keys. A value that was returned does not
change any more.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from longhall.meters import Histogram


@dataclass(slots=True)
class Traffic:
    """Traffic since the start, of the whole node or of one topic."""

    messages_in: int = 0
    bytes_in: int = 0
    bytes_out: int = 0
    bytes_rejected: int = 0
    produce_requests: int = 0
    fetch_requests: int = 0
    produce_requests_failed: int = 0
    fetch_requests_failed: int = 0
    throttled: int = 0  # Sends beyond the quota: Kafka producers were throttled, others were refused.


@dataclass(slots=True)
class PartitionStatus:
    """One partition: the bounds of its log, its leader and its replicas."""

    number: int
    log_start_offset: int
    log_end_offset: int  # The offset that the next message gets.
    size_bytes: int = 0
    segments: int = 0
    leader: int = 0  # The id of a broker; -1 without a leader.
    replicas: int = 1
    in_sync_replicas: int = 1


@dataclass(slots=True)
class TopicStatus:
    """One topic with all its partitions."""

    name: str
    partitions: Sequence[PartitionStatus]
    traffic: Traffic | None = None


@dataclass(slots=True)
class GroupOffsetStatus:
    """The progress of a group in one partition."""

    topic: str
    partition: int
    committed_offset: int
    lag: int  # Messages between the committed offset and the end.
    # The age of the first message that was not consumed (0 without lag). None if its timestamp would need a read from
    # the disk.
    lag_seconds: float | None = None


@dataclass(slots=True)
class GroupStatus:
    """One consumer group."""

    name: str
    state: str
    members: int
    offsets: Sequence[GroupOffsetStatus]
    elsewhere: Sequence[tuple[str, int, int]] = ()  # Topic, partition and committed offset in other replication groups.


@dataclass(slots=True)
class QueueStatus:
    """One queue: its depth, and the counters of its messages."""

    name: str
    ready: int
    in_flight: int
    delayed: int
    size_bytes: int
    oldest_age_seconds: float  # Of the ready messages; 0 without one.
    paused: bool
    sends: int
    deliveries: int
    leases_outlived: int
    dead_letters: Mapping[str, int]  # By reason.
    fates: Mapping[str, int] = field(default_factory=dict)  # Reports sent to reply queues, by fate.
    fates_lost: int = 0
    parts: int = 1
    generation: int = 0  # How often the number of its parts has changed.
    settles: int = 0  # Messages that consumers settled since the start.


@dataclass(slots=True)
class RequestStatus:
    """All requests of one kind, named as in the protocol ("Produce", "Fetch")."""

    name: str
    seconds: Histogram
    errors: Mapping[str, int] = field(default_factory=dict)  # By the name of the error; without successes.


@dataclass(slots=True)
class DoorStatus:
    """The connections of one door."""

    name: str
    connections: int
    refused: int


@dataclass(slots=True)
class StorageStatus:
    """The log of the node, its memory and its connections."""

    wal_bytes_written: int = 0
    wal_bytes_kept: int = 0
    commit_rounds: int = 0
    sync_seconds: Histogram = field(default_factory=Histogram)
    memory_used_bytes: int = 0
    memory_limit_bytes: int = 0
    requests_given_up: int = 0  # Incomplete requests that were given up when memory was short.
    uncommitted_bytes: int = 0  # Appended as leader, and not committed.
    uncommitted_limit_bytes: int = 0
    backed_up: bool = False  # True while messages are refused because too much waits for commit or checkpoint.
    backlog_refusals: int = 0
    connections: int = 0
    connections_refused: int = 0  # By the Kafka door.
    doors: list[DoorStatus] = field(default_factory=list)
    connections_held_back: int = 0  # How often reading was paused because other lanes had less than their share.
    checkpoints: int = 0
    checkpoint_age_seconds: float = 0.0
    recovery_seconds: float = 0.0
    damaged_ranges: int = 0
    mended_ranges: int = 0  # Damaged ranges that were repaired from another node.
    log_cut_bytes: int = 0  # Cut from the end of the write-ahead log at the start, because it was incomplete.
    log_corrections: int = 0  # Flipped bits of the write-ahead log that were corrected at the start.
    disk_free_bytes: int = 0
    disk_free_files: int = 0
    disk_full: bool = False  # True while messages are refused because the disk is full.
    background_failures: Mapping[str, int] = field(default_factory=dict)  # By task, since the start.
    background_failing: Sequence[str] = ()  # Tasks whose last run failed.
    transactions_open: int = 0


@dataclass(slots=True)
class BrokerStatus:
    """One broker of the cluster as clients see it."""

    number: int
    address: str


class HallStatus(Protocol):
    """The node as the console sees it."""

    def ready(self) -> str | None:
        """None if this node works, else the reason ("starting", "draining", a failure)."""

    async def send_trouble(self) -> str | None:
        """None if a client's send would succeed now, else the reason; other nodes may be asked."""

    def healthy(self) -> str | None:
        """None if the process is healthy, else why it should be restarted."""

    def brokers(self) -> Iterable[BrokerStatus]: ...

    def topics(self) -> Iterable[TopicStatus]: ...

    def groups(self) -> Iterable[GroupStatus]: ...

    async def offsets_elsewhere(self, groups: Sequence[GroupStatus]) -> Sequence[Sequence[GroupOffsetStatus]]:
        """For each of these groups its progress in other replication groups, as far as those answer."""

    def queues(self) -> Iterable[QueueStatus]: ...

    def traffic(self) -> Traffic: ...

    def requests(self) -> Iterable[RequestStatus]: ...

    def storage(self) -> StorageStatus: ...

"""What the console wants to know of the hall, and nothing about where the hall keeps it.

The node fulfils `HallStatus` from the broker's state. Topics and groups may be generated one by one: the
console takes some in each turn of the loop, so whoever generates them stands on a copy of its keys, not on a table
that changes meanwhile. What has been given does not change any more.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from longhall.meters import Histogram


@dataclass(slots=True)
class Traffic:
    """What went in and out since the start: of the whole node, or of one topic."""

    messages_in: int = 0
    bytes_in: int = 0
    bytes_out: int = 0
    bytes_rejected: int = 0
    produce_requests: int = 0
    fetch_requests: int = 0
    produce_requests_failed: int = 0
    fetch_requests_failed: int = 0
    throttled: int = 0  # Sends beyond the quota: Kafka's producers were told to wait, others were refused.


@dataclass(slots=True)
class PartitionStatus:
    """One partition: where its log begins and ends, and who keeps it."""

    number: int
    log_start_offset: int
    log_end_offset: int  # The offset that the next message gets.
    size_bytes: int = 0
    segments: int = 0
    leader: int = 0  # Of a broker; -1 when nobody leads.
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
    """How far a group has come in one partition."""

    topic: str
    partition: int
    committed_offset: int
    lag: int  # Messages between the committed offset and the end.
    # How long the first message that was not consumed has waited (0 without lag). None where finding its timestamp
    # would have meant waiting for the disk.
    lag_seconds: float | None = None


@dataclass(slots=True)
class GroupStatus:
    """One consumer group."""

    name: str
    state: str
    members: int
    offsets: Sequence[GroupOffsetStatus]


@dataclass(slots=True)
class QueueStatus:
    """One queue: what is in it now, and what has happened to its messages."""

    name: str
    ready: int
    in_flight: int
    delayed: int
    size_bytes: int
    oldest_age_seconds: float  # Of the messages that could be given out; 0 without one.
    paused: bool
    sends: int
    deliveries: int
    leases_outlived: int
    dead_letters: Mapping[str, int]  # By reason.
    fates: Mapping[str, int] = field(default_factory=dict)  # Told to reply queues, by fate.
    fates_lost: int = 0
    parts: int = 1
    generation: int = 0  # How often its parts have become more or fewer.


@dataclass(slots=True)
class RequestStatus:
    """All requests of one kind, by the name that the protocol gives them ("Produce", "Fetch")."""

    name: str
    seconds: Histogram
    errors: Mapping[str, int] = field(default_factory=dict)  # By the name of the error; successes are not here.


@dataclass(slots=True)
class DoorStatus:
    """Who comes to one door."""

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
    requests_given_up: int = 0  # Half arrived, when memory was short.
    uncommitted_bytes: int = 0  # Appended as leader, and not committed.
    uncommitted_limit_bytes: int = 0
    backed_up: bool = False  # Whether messages are refused because too much waits.
    backlog_refusals: int = 0
    connections: int = 0
    connections_refused: int = 0  # By the Kafka door.
    doors: list[DoorStatus] = field(default_factory=list)
    connections_held_back: int = 0  # Not read for a while, because others had less than their share.
    checkpoints: int = 0
    checkpoint_age_seconds: float = 0.0
    recovery_seconds: float = 0.0
    damaged_ranges: int = 0
    mended_ranges: int = 0  # Damage that was put right from another node.
    log_cut_bytes: int = 0  # Of the write-ahead log, at the start: what was not whole at its end.
    log_corrections: int = 0  # Likewise: flipped bits that were put right.
    disk_free_bytes: int = 0
    disk_free_files: int = 0
    disk_full: bool = False  # Whether producing is refused for want of space.
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
        """None when this node works, else why not ("starting", "draining", what fails)."""

    async def send_trouble(self) -> str | None:
        """None when a client's send would succeed now, else why not; other nodes may be asked."""

    def healthy(self) -> str | None:
        """None while the process is worth keeping, else why it should be restarted."""

    def brokers(self) -> Iterable[BrokerStatus]: ...

    def topics(self) -> Iterable[TopicStatus]: ...

    def groups(self) -> Iterable[GroupStatus]: ...

    def queues(self) -> Iterable[QueueStatus]: ...

    def traffic(self) -> Traffic: ...

    def requests(self) -> Iterable[RequestStatus]: ...

    def storage(self) -> StorageStatus: ...

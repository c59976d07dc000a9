"""A hall that says whatever a test wants it to."""

from __future__ import annotations

from collections.abc import Sequence

from longhall.console.sources import (
    BrokerStatus,
    GroupOffsetStatus,
    GroupStatus,
    PartitionStatus,
    QueueStatus,
    RequestStatus,
    StorageStatus,
    TopicStatus,
    Traffic,
)
from longhall.meters import Histogram


class FakeHall:
    """Fulfils `HallStatus`."""

    def __init__(self) -> None:
        self.not_ready: str | None = None
        self.sick: str | None = None
        self.produce = RequestStatus("Produce", Histogram(), {"NOT_LEADER_OR_FOLLOWER": 2})
        self.state = StorageStatus(wal_bytes_written=1 << 40, damaged_ranges=1, disk_full=True)
        sent = Traffic(32, 2048, throttled=3)
        self.topic_list: list[TopicStatus] = [
            TopicStatus("orders", [PartitionStatus(0, 5, 25, 4096, 2), PartitionStatus(1, 0, 7)], sent),
            TopicStatus("empty", []),
        ]
        offsets = [GroupOffsetStatus("orders", 0, 20, 5, 1.5), GroupOffsetStatus("orders", 1, 7, 0, None)]
        self.group_list: list[GroupStatus] = [GroupStatus('odd "name"\\\n', "Stable", 3, offsets, [("spread", 2, 8)])]

        self.queue_list: list[QueueStatus] = [
            QueueStatus("jobs", 5, 2, 1, 4096, 1.5, False, 9, 3, 1, {"attempts": 2, "expired": 1}, {"settled": 4}, 2),
            QueueStatus("idle", 0, 0, 0, 0, 0.0, True, 0, 0, 0, {}),
        ]

    def ready(self) -> str | None:
        return self.not_ready

    async def send_trouble(self) -> str | None:
        return self.ready()

    def healthy(self) -> str | None:
        return self.sick

    def brokers(self) -> Sequence[BrokerStatus]:
        return [BrokerStatus(1, "127.0.0.1:9092")]

    def topics(self) -> Sequence[TopicStatus]:
        return self.topic_list

    def groups(self) -> Sequence[GroupStatus]:
        return self.group_list

    async def offsets_elsewhere(self, groups: Sequence[GroupStatus]) -> Sequence[Sequence[GroupOffsetStatus]]:
        return [[GroupOffsetStatus(*position, 3, 0.5) for position in group.elsewhere] for group in groups]

    def queues(self) -> Sequence[QueueStatus]:
        return self.queue_list

    def traffic(self) -> Traffic:
        return Traffic(messages_in=33, bytes_in=2049)

    def requests(self) -> Sequence[RequestStatus]:
        return [self.produce]

    def storage(self) -> StorageStatus:
        return self.state


class FakeClock:
    """A clock that stands still until told."""

    def __init__(self) -> None:
        self.now_ms = 1_000_000

    def wall_ms(self) -> int:
        return self.now_ms

    def monotonic_ms(self) -> int:
        return self.now_ms

    def monotonic_us(self) -> int:
        return self.now_ms * 1000

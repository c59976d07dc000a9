"""The state of this node for the console, read from the broker and the doors at each request."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Final, final

from longhall.broker.consumer_lag import Position, lag_of
from longhall.broker.hall import Hall
from longhall.broker.queues.upkeep.measurement import counts_of, depth_of
from longhall.broker.traffic import Traffic as Counted
from longhall.cluster.placement.group_lags import GroupLags
from longhall.console.sources import (
    BrokerStatus,
    DoorStatus,
    GroupOffsetStatus,
    GroupStatus,
    PartitionStatus,
    QueueStatus,
    RequestStatus,
    StorageStatus,
    TopicStatus,
    Traffic,
)
from longhall.doors.kafka.brokers import brokers_of
from longhall.doors.kafka.placements import Placements
from longhall.doors.kafka.server import KafkaServer
from longhall.doors.kafka.wire.apis import API
from longhall.front.admission import Budget
from longhall.meters import Histogram
from longhall.names import CATALOGUE_SHARD
from longhall.node.agent_check import line_of
from longhall.node.readiness import DRAINING, Readiness
from longhall.topics.transaction import State

NO_REQUESTS: Final = Histogram()  # Of a kind that was never asked for.


@final
class NodeStatus:
    """Fulfils `console.sources.HallStatus`."""

    def __init__(self, hall: Hall, server: KafkaServer, budget: Budget, readiness: Readiness) -> None:
        self.doors: list[Callable[[], DoorStatus]] = []  # The connections of each door, set by the assembly.
        self.lags: GroupLags | None = None  # In a node of a cluster: of consumer groups in other replication groups.
        self._hall = hall
        self._server = server
        self._budget = budget
        self._readiness = readiness

    @property
    def state(self) -> str | None:
        """The phase of a node that does not serve ("starting", "draining"); None while it serves."""
        return self._readiness.state

    @state.setter
    def state(self, state: str | None) -> None:
        self._readiness.state = state

    def ready(self) -> str | None:
        return self._readiness.own_trouble()

    def begin_drain(self) -> None:
        """Report that the node is about to stop: balancers shall choose other nodes. Clients are still served."""
        self._readiness.draining = True

    async def agent_line(self) -> str:
        """The answer to HAProxy's agent-check."""
        readiness = self._readiness
        draining = readiness.draining or readiness.state == DRAINING
        return line_of(draining=draining, trouble=None if draining else await readiness.trouble())

    async def send_trouble(self) -> str | None:
        return await self._readiness.trouble()

    def healthy(self) -> str | None:
        failure = self._hall.commits.failure
        return None if failure is None else f"the disk failed: {failure}"

    def brokers(self) -> list[BrokerStatus]:
        return [
            BrokerStatus(broker.node_id, f"{broker.host}:{broker.port}") for broker in brokers_of(self._server.door)
        ]

    @property
    def _has_copy(self) -> bool:
        """True if this process has the state of its hall. A drained node has one that nobody keeps up to date."""
        leadership = self._hall.leadership
        return leadership is None or leadership.node in leadership.replicas(CATALOGUE_SHARD)

    def topics(self) -> Iterator[TopicStatus]:
        # Generated from a copy: the console lets the loop run between items, and topics change meanwhile.
        for name, route in list(self._hall.routes.items() if self._has_copy else ()):
            placements = Placements(self._server.door.hall, self._server.door.node_id)
            partitions = [
                PartitionStatus(
                    partition.number,
                    partition.log.start_offset,
                    partition.high_watermark,
                    partition.log.bytes_kept(),
                    len(partition.log.segments),
                    placements.of(partition).leader,
                )
                for partition in route
                if not partition.elsewhere
            ]
            if not partitions:
                continue  # The wings that store it report it.
            traffic = self._hall.topic_traffic.get(name)
            yield TopicStatus(name, partitions, None if traffic is None else _traffic(traffic))

    def groups(self) -> Iterator[GroupStatus]:
        for groups in self._hall.groups if self._has_copy else ():
            for line in list(groups.list_groups()):
                offsets: list[GroupOffsetStatus] = []
                elsewhere: list[Position] = []
                for row in groups.fetch_offsets(line.group_id, None, False):
                    position = (row.topic, row.partition, row.offset)
                    lag = lag_of(self._hall, position)
                    if lag is not None:
                        offsets.append(GroupOffsetStatus(*position, lag.messages, lag.seconds))
                    elif row.offset >= 0:
                        elsewhere.append(position)
                members = groups.count_members(line.group_id)
                yield GroupStatus(line.group_id, line.state, members, offsets, elsewhere)

    async def offsets_elsewhere(self, groups: Sequence[GroupStatus]) -> list[list[GroupOffsetStatus]]:
        if self.lags is None:
            return [[] for _ in groups]
        lags = await self.lags.measure({position for group in groups for position in group.elsewhere})
        return [
            [
                GroupOffsetStatus(*position, lags[position].messages, lags[position].seconds)
                for position in group.elsewhere
                if position in lags
            ]
            for group in groups
        ]

    def queues(self) -> Iterator[QueueStatus]:
        for queue in list(self._hall.queues.values() if self._has_copy else ()):
            if not queue.is_closed:
                depth = depth_of(self._hall, queue)
                counts = counts_of(queue)
                yield QueueStatus(
                    queue.entry.name,
                    depth.available,
                    depth.in_flight,
                    depth.delayed,
                    depth.bytes,
                    depth.oldest_age_ms / 1000,
                    queue.queue.state.paused,
                    counts.sends,
                    counts.deliveries,
                    counts.outlived,
                    counts.deaths,
                    counts.fates,
                    counts.fates_lost,
                    depth.parts,
                    depth.generation,
                    counts.settles,
                )

    def traffic(self) -> Traffic:
        whole = _traffic(self._hall.traffic)
        for counted in self._hall.topic_traffic.values():
            whole.messages_in += counted.messages_in
            whole.bytes_in += counted.bytes_in
            whole.bytes_out += counted.bytes_out
            whole.throttled += counted.throttled
        return whole

    def requests(self) -> list[RequestStatus]:
        seconds = self._server.seconds
        return [RequestStatus(api.name, seconds.get(key, NO_REQUESTS)) for key, api in sorted(API.items())]

    def storage(self) -> StorageStatus:
        hall = self._hall
        since_ms = hall.checkpointed_ms or hall.recovered_ms
        age_ms = hall.time.now_ms() - since_ms if since_ms else 0
        return StorageStatus(
            wal_bytes_written=hall.wal.end,
            wal_bytes_kept=hall.wal.end - hall.wal.start,
            commit_rounds=hall.journal.rounds,
            sync_seconds=hall.commits.sync_seconds,
            memory_used_bytes=self._budget.used_bytes + self._budget.unauthenticated.used_bytes + hall.tail_bytes,
            memory_limit_bytes=self._budget.bytes_max + self._budget.unauthenticated.bytes_max,
            requests_given_up=self._budget.given_up + self._budget.unauthenticated.given_up,
            uncommitted_bytes=hall.backlog.size_bytes,
            uncommitted_limit_bytes=hall.backlog.weight_max,
            backed_up=hall.is_backed_up,
            backlog_refusals=hall.backlog.refusals,
            connections=len(self._server.connections.registered),
            connections_refused=self._server.connections.refused.count,
            doors=[look() for look in self.doors],
            connections_held_back=self._server.door.fairness.waits,
            checkpoints=hall.checkpoints,
            checkpoint_age_seconds=age_ms / 1000,
            recovery_seconds=hall.recovery_seconds,
            damaged_ranges=sum(len(partition.log.damaged) for partition in hall.partitions.values()),
            mended_ranges=hall.mended,
            log_cut_bytes=hall.log_cut_bytes,
            log_corrections=hall.log_corrections,
            disk_free_bytes=hall.world.disk.free_bytes(),
            disk_free_files=hall.world.disk.free_files(),
            disk_full=hall.storage_full,
            background_failures=dict(hall.background.failures),
            background_failing=sorted(hall.background.failing),
            transactions_open=sum(
                len(transactions.list_transactions(hall.time.now_ms(), [State.ONGOING.value]))
                for transactions in hall.transactions
            ),
        )


def _traffic(counted: Counted) -> Traffic:
    return Traffic(
        messages_in=counted.messages_in,
        bytes_in=counted.bytes_in,
        bytes_out=counted.bytes_out,
        bytes_rejected=counted.bytes_rejected,
        produce_requests=counted.sends,
        fetch_requests=counted.fetches,
        produce_requests_failed=counted.sends_failed,
        fetch_requests_failed=counted.fetches_failed,
        throttled=counted.throttled,
    )

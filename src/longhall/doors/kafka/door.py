"""What a handler of the Kafka door may use: the broker, and the identity of this node."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import final

from longhall.broker.fetch_filter import FetchFilters
from longhall.broker.group_coordinator import GroupCoordinator
from longhall.broker.hall import NODE_ID, Hall
from longhall.broker.pending import Pending
from longhall.broker.producer_ids import ProducerIdBlock, ProducerIds
from longhall.broker.share.coordinator import ShareGroupCoordinator
from longhall.broker.transaction_coordinator import TransactionCoordinator
from longhall.cluster.placement.group_client import GroupClient
from longhall.doors.kafka.fetch_sessions import FetchSessions
from longhall.doors.kafka.limits import KafkaLimits
from longhall.doors.kafka.metadata_cache import MetadataCache
from longhall.doors.kafka.sealing import KafkaSealing
from longhall.doors.kafka.share_group_settings import ShareGroupSettings
from longhall.doors.kafka.share_sessions import ShareSessions
from longhall.errors import Code
from longhall.front.fairness import Fairness
from longhall.front.guard import AccessGuard
from longhall.front.refused_requests import RefusedRequests
from longhall.front.usage import ProcessUsage
from longhall.names import CATALOGUE_SHARD
from longhall.service.kafka_operations import ReserveProducerIds
from longhall.service.router import Router


@final
class Door:
    """The state that all connections of the Kafka door share. Every handler gets it."""

    def __init__(
        self,
        hall: Hall,
        coordinator: GroupCoordinator,
        transactor: TransactionCoordinator,
        data: str,
        settings: Mapping[str, str],
        service: Router,
        access: AccessGuard | None = None,
        sealing: KafkaSealing | None = None,
        limits: KafkaLimits | None = None,
        fairness: Fairness | None = None,
    ) -> None:
        """Without `access` every client may do everything, without `limits` as much as it likes. The other doors of the
        process share `fairness`.
        """
        self.limits = limits
        self.usage: ProcessUsage | None = None  # None: requests and fetched records are not counted.
        self.access = access
        self.refused = RefusedRequests("kafka")
        self.hall = hall
        self.coordinator = coordinator
        self.transactor = transactor
        self.producer_ids = ProducerIds(hall, self._reserve_producer_ids)
        self.data = data
        self.node_id = NODE_ID
        self.host = ""  # Set when the door is open.
        self.port = 0
        self.rack = ""
        self.service = service
        self.sealing = sealing  # None: sealed topics are refused.
        self.main: GroupClient | None = None  # In another group's process: the main hall answers all but records.
        self.share_groups = ShareGroupCoordinator(hall, coordinator)
        self.share_settings = ShareGroupSettings(self.share_groups)
        self.share_sessions = ShareSessions()
        self.fetch_filters = FetchFilters()
        self.fetch_sessions = FetchSessions(hall.world.entropy)
        self.fairness = fairness or Fairness()
        self.metadata_cache = MetadataCache()
        self.long_responses = asyncio.Lock()  # Requests for many topics are answered one after the other.
        self._settings = settings

    @property
    def cluster_id(self) -> str:
        """The id of the hall, by which clients detect that they are connected to another cluster."""
        return self.hall.hall_id

    @property
    def follows(self) -> bool:
        """True if another node leads the hall."""
        leadership = self.hall.leadership
        return leadership is not None and not leadership.leads(CATALOGUE_SHARD)

    @property
    def keeps(self) -> bool:
        """True if this node has a replica of the hall. A node without one cannot say that a topic does not exist."""
        leadership = self.hall.leadership
        return leadership is None or leadership.node in leadership.replicas(CATALOGUE_SHARD)

    def unknown(self, by_id: bool) -> Code:
        """The error for a partition that this process does not know. The process of another replication group knows
        only its own partitions: NOT_LEADER makes the client ask for metadata, which the main hall answers.
        """
        if self.main is not None:
            return Code.NOT_LEADER
        return Code.UNKNOWN_TOPIC_ID if by_id else Code.UNKNOWN_TOPIC

    def _reserve_producer_ids(self) -> Pending[ProducerIdBlock]:
        operation = ReserveProducerIds()
        return self.service.dispatch(operation) if self.main is None else self.main.call(operation)

    def broker_settings(self) -> Mapping[str, str]:
        """The settings of this node, by Kafka's names where there is one."""
        return self._settings

"""What a handler of the Kafka door may use: the broker, and how this node is to be called."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import final

from longhall.broker.coordinate import Coordinator
from longhall.broker.fetch_filter import FetchFilters
from longhall.broker.hall import NODE_ID, Hall
from longhall.broker.transact import Transactor
from longhall.cluster.placement.group_client import GroupClient
from longhall.doors.kafka.metadata_cache import MetadataCache
from longhall.errors import Code
from longhall.front.fairness import Fairness
from longhall.names import CATALOGUE_SHARD
from longhall.service.router import Router


@final
class Door:
    """Handed to every handler."""

    def __init__(
        self,
        hall: Hall,
        coordinator: Coordinator,
        transactor: Transactor,
        data: str,
        settings: Mapping[str, str],
        service: Router,
    ) -> None:
        self.hall = hall
        self.coordinator = coordinator
        self.transactor = transactor
        self.data = data
        self.node_id = NODE_ID
        self.host = ""  # Known when the door is open.
        self.port = 0
        self.rack = ""
        self.service = service
        self.main: GroupClient | None = None  # Of another group's process: the hall answers all but records.
        self.sieves = FetchFilters()
        self.fairness = Fairness()
        self.metadata_cache = MetadataCache()
        self.long_responses = asyncio.Lock()  # Requests for many topics are answered one after the other.
        self._settings = settings

    @property
    def cluster_id(self) -> str:
        """The hall's own id, by which clients notice that they talk to another one."""
        return self.hall.hall_id

    @property
    def follows(self) -> bool:
        """Whether another node leads the hall."""
        leadership = self.hall.leadership
        return leadership is not None and not leadership.leads(CATALOGUE_SHARD)

    @property
    def keeps(self) -> bool:
        """Whether this node keeps the hall: one that does not must not say that there is no topic."""
        leadership = self.hall.leadership
        return leadership is None or leadership.node in leadership.replicas(CATALOGUE_SHARD)

    def unknown(self, by_id: bool) -> Code:
        """Why there is nothing to do for a partition that this hall does not know. A wing knows but a part of what
        there is: its clients are to ask where the partition is, and the main hall tells them if it is nowhere.
        """
        if self.main is not None:
            return Code.NOT_LEADER
        return Code.UNKNOWN_TOPIC_ID if by_id else Code.UNKNOWN_TOPIC

    def broker_settings(self) -> Mapping[str, str]:
        """What this node was told, by Kafka's names where it has one."""
        return self._settings

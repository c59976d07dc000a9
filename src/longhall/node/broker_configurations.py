"""The broker configurations of the main hall, in processes that do not have its log, and their effect on the doors.

process                                    broker configurations come from
a node with a replica of the main hall     its catalogue; this module has nothing to do
a worker without data, a node without      the leader, asked every second; kept in memory
a replica
the leader of another replication group    the leader of the main hall, asked every second, and written to the
                                           log of the group: a restart does not fall back to other retention times
"""

from __future__ import annotations

import asyncio
import logging
import resource
from collections.abc import Callable, Sequence
from typing import Any, Final, final

from longhall.broker.background import cancel
from longhall.broker.broker_administration import take_over
from longhall.broker.broker_configuration import CONNECTIONS, CONNECTIONS_PER_ADDRESS, values_of
from longhall.broker.events import BrokersConfigured
from longhall.broker.hall import Hall, HallObserver
from longhall.broker.pending import Pending
from longhall.errors import LonghallError
from longhall.front.connection_registry import ConnectionRegistry
from longhall.names import CATALOGUE_SHARD
from longhall.node.descriptors import share_of
from longhall.service.broker_operations import ListBrokerConfigurations

LOOK_S: Final = 1.0

AskMainHall = Callable[[ListBrokerConfigurations], Pending[dict[str, dict[str, str]]]]

_log = logging.getLogger("longhall.brokers")


@final
class ConnectionLimits(HallObserver):
    """Applies the limits of connections to all doors when the configuration of this broker changes."""

    def __init__(
        self, hall: Hall, count_max: int, per_address_max: int, registries: Sequence[ConnectionRegistry[Any]]
    ) -> None:
        """With the limits that the node was started with."""
        self._hall = hall
        self._count_max = count_max
        self._per_address_max = per_address_max
        self._registries = registries
        hall.observers.append(self)

    def brokers_configured(self) -> None:
        catalogue = self._hall.catalogue
        values = values_of(catalogue.brokers, catalogue.broker)
        share = share_of(resource.getrlimit(resource.RLIMIT_NOFILE)[0])  # The start has seen to it likewise.
        count_max = min(int(values.get(CONNECTIONS, self._count_max)), share)
        per_address_max = min(int(values.get(CONNECTIONS_PER_ADDRESS, self._per_address_max)), share)
        for registry in self._registries:
            registry.limit(count_max, per_address_max)


@final
class BrokerConfigurationFollower:
    """Keeps the broker configurations of a process without the log of the main hall up to date."""

    def __init__(self, hall: Hall, ask: AskMainHall, *, is_group: bool) -> None:
        self._hall = hall
        self._ask = ask
        self._is_group = is_group  # This process serves another replication group.
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begin to follow."""
        self._task = self._hall.background.start("follow broker configurations", self._follow)

    async def stop(self) -> None:
        """End."""
        await cancel(self._task)

    async def _follow(self) -> None:
        while True:
            await asyncio.sleep(LOOK_S)
            if not self._is_needed:
                continue
            try:
                await self._take(await self._ask(ListBrokerConfigurations()))
            except (LonghallError, OSError, TimeoutError) as error:
                _log.debug("the broker configurations are not known now", extra={"reason": str(error)})

    @property
    def _is_needed(self) -> bool:
        leadership = self._hall.leadership
        if leadership is None:
            return False
        if self._is_group:
            return leadership.leads(CATALOGUE_SHARD)
        replicas = leadership.replicas(CATALOGUE_SHARD)
        return bool(replicas) and leadership.node not in replicas

    async def _take(self, configurations: dict[str, dict[str, str]]) -> None:
        hall = self._hall
        if self._is_group:
            await take_over(hall, configurations)
        elif configurations != hall.catalogue.brokers and self._is_needed:
            hall.apply_catalogue(BrokersConfigured(configurations=configurations))

"""The four doors for messages of one process: Kafka, SQS, AMQP and STOMP.

They are made, opened, drained and closed together, and share one budget of memory. `MessageDoors` has the servers under
their protocols' names; `addresses` tells where each listens, once it is open.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, Final, NamedTuple, final

from longhall.broker.group_coordinator import GroupCoordinator
from longhall.broker.hall import Hall
from longhall.broker.transaction_coordinator import TransactionCoordinator
from longhall.console.sources import DoorStatus
from longhall.doors.amqp.server import AmqpServer
from longhall.doors.kafka.door import Door
from longhall.doors.kafka.login_guard import LoginGuard
from longhall.doors.kafka.sealing import KafkaSealing
from longhall.doors.kafka.server import KafkaServer
from longhall.doors.sqs.door import Door as SqsDoor
from longhall.doors.sqs.server import SqsServer
from longhall.doors.sqs.signing import Verifier
from longhall.doors.stomp.server import StompServer
from longhall.front.admission import Budget
from longhall.front.connection_registry import ConnectionRegistry
from longhall.front.fair_calls import FairCalls
from longhall.front.fairness import Fairness
from longhall.front.guard import AccessGuard
from longhall.node.addresses import Address, parse_address
from longhall.node.authentication import NodeAuthentication
from longhall.node.broker_configurations import ConnectionLimits
from longhall.node.client_limits import NodeLimits
from longhall.node.room_settings import broker_settings, sqs_limits_of
from longhall.node.settings import Settings
from longhall.node.tls import NodeTls, has_tls
from longhall.service.router import Router
from longhall.service.sessions import Sessions
from longhall.world.ports import Network

Listen = Callable[[Network, str, int], Awaitable[int]]

_CLOSED: Final = Address("", 0)


class BrokerParts(NamedTuple):
    """The parts of the broker that the Kafka door uses beside the service."""

    hall: Hall
    coordinator: GroupCoordinator
    transactor: TransactionCoordinator


class FrontParts(NamedTuple):
    """What every request passes between a door and the service."""

    guard: AccessGuard
    authentication: NodeAuthentication
    sealing: KafkaSealing
    limits: NodeLimits
    budget: Budget


@final
class MessageDoors:
    """The servers of the four doors."""

    def __init__(
        self, settings: Settings, broker: BrokerParts, service: Router, sessions: Sessions, front: FrontParts
    ) -> None:
        self.addresses = dict.fromkeys(("kafka", "sqs", "amqp", "stomp", "stomp_websocket"), _CLOSED)
        self._settings = settings
        hall, budget = broker.hall, front.budget
        entropy, clock = hall.world.entropy, hall.world.clock
        logins = front.authentication.door
        count_max, per_address_max = settings.connections_max, settings.connections_per_address_max
        fairness = Fairness()
        loop = asyncio.get_running_loop()
        service.share(FairCalls(fairness, loop.time, loop.call_later))
        door = Door(
            *broker,
            os.path.abspath(settings.data),
            broker_settings(settings),
            service,
            front.guard,
            front.sealing,
            front.limits.kafka,
            fairness,
        )
        self.kafka = KafkaServer(
            door,
            budget,
            settings.request_bytes_max,
            count_max,
            per_address_max,
            settings.connection_idle_ms / 1000,
            LoginGuard(logins("kafka", settings.kafka), entropy, settings.kafka_session_ms_max),
        )
        self.sqs = SqsServer(
            SqsDoor(service, limits=sqs_limits_of(settings), clock=clock),
            budget,
            clock,
            entropy,
            Verifier(logins("sqs", settings.sqs)),
            connections_max=count_max,
            connections_per_address_max=per_address_max,
            throttling=front.limits.sqs,
        )
        self.amqp = AmqpServer(
            service,
            sessions,
            entropy,
            clock,
            budget,
            lambda: service.leads and hall.storage_full,
            logins("amqp", settings.amqp),
            connections_max=count_max,
            connections_per_address_max=per_address_max,
            rates=front.limits.rates,
        )
        self.stomp = StompServer(
            service,
            sessions,
            entropy,
            budget,
            logins("stomp", settings.stomp),
            connections_max=count_max,
            connections_per_address_max=per_address_max,
            rates=front.limits.rates,
        )
        for server in (self.amqp, self.stomp, self.kafka):
            front.authentication.close_with(server.close_outdated)
        ConnectionLimits(hall, count_max, per_address_max, [one for _, one in self.connections()])

    def connections(self) -> list[tuple[str, ConnectionRegistry[Any]]]:
        """The connections of each door, by its name."""
        return [
            ("kafka", self.kafka.connections),
            ("sqs", self.sqs.connections),
            ("amqp", self.amqp.connections),
            ("stomp", self.stomp.connections),
        ]

    def sources(self) -> list[Callable[[], DoorStatus]]:
        """What the status page asks for the connections of each door."""
        return [partial(_status_of, name, one) for name, one in self.connections()]

    async def open(self, tls: NodeTls) -> None:
        """Listen at the addresses of the settings. OSError if one cannot be had."""
        settings = self._settings
        kafka = await self._listen("kafka", settings.kafka, self.kafka.open, tls)
        advertised = parse_address(settings.advertised_kafka) if settings.advertised_kafka else kafka
        self.kafka.door.host = "127.0.0.1" if advertised.is_everywhere else advertised.host
        self.kafka.door.port = advertised.port or kafka.port
        self.sqs.door.authority = str(await self._listen("sqs", settings.sqs, self.sqs.open, tls))
        self.sqs.door.scheme = "https" if has_tls(settings, "sqs") else "http"
        await self._listen("amqp", settings.amqp, self.amqp.open, tls)
        await self._listen("stomp", settings.stomp, self.stomp.open, tls)
        await self._listen("stomp_websocket", settings.stomp_websocket, self.stomp.open_websocket, tls)

    async def _listen(self, door: str, wanted: str, listen: Listen, tls: NodeTls) -> Address:
        address = parse_address(wanted)
        port = await listen(tls.network_of(door), address.host, address.port)
        self.addresses[door] = bound = Address(address.host, port)
        return bound

    def stop_accepting(self) -> None:
        """Take no new connections."""
        for server in (self.kafka, self.sqs, self.amqp, self.stomp):
            server.stop_accepting()

    async def drain(self, seconds: float) -> None:
        """Complete the requests that are under way, for at most this time, and close all connections."""
        servers = (self.kafka, self.sqs, self.amqp, self.stomp)
        await asyncio.gather(*(server.drain(seconds) for server in servers))

    def abort(self) -> None:
        """Close all connections at once: their requests will not be answered."""
        self.stop_accepting()
        for connection in list(self.kafka.connections.registered):
            connection.close()
        others: list[ConnectionRegistry[Any]] = [self.sqs.connections, self.amqp.connections, self.stomp.connections]
        for registry in others:
            for other in list(registry.registered):
                other.abort()


def _status_of(door: str, connections: ConnectionRegistry[Any]) -> DoorStatus:
    return DoorStatus(door, len(connections.registered), connections.refused.count)

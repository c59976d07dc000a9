"""Assembly: the only place that wires rooms together.

A node is made from a world and settings, real or simulated alike: recovery, the broker's verbs, the Kafka door, the
console. `stop` is the clean way out: drain, checkpoint, close. A node that is simply dropped has crashed, and the next
one recovers.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from functools import partial
from typing import Any, Final, TypeVar, final

import msgspec

from longhall.broker.broker_administration import configure_broker
from longhall.broker.checkpoint import checkpoint
from longhall.broker.group_coordinator import GroupCoordinator
from longhall.broker.hall import Hall
from longhall.broker.housekeeper import Housekeeper
from longhall.broker.pending import Pending
from longhall.broker.queues.service import QueueService
from longhall.broker.recovery import recover
from longhall.broker.scrub import Scrubber
from longhall.broker.transaction_coordinator import TransactionCoordinator
from longhall.cluster.membership.liveness import Liveness
from longhall.cluster.placement.group_client import GroupClient
from longhall.cluster.rpc.operation import Operation
from longhall.console.access_families import access_families
from longhall.console.api.access import access_routes
from longhall.console.api.accounts import AccountHandlers
from longhall.console.api.groups import GROUP_ROUTES
from longhall.console.api.hosts import HOST_ROUTES
from longhall.console.api.keys import KEY_ROUTES
from longhall.console.api.recovery import recovery_routes
from longhall.console.api.routes import ROUTES
from longhall.console.api.scrub import SCRUB_ROUTES
from longhall.console.api.service import Api
from longhall.console.api.upgrade import UPGRADE_ROUTES
from longhall.console.audit_families import audit_families
from longhall.console.http import HttpServer
from longhall.console.limit_families import limit_families
from longhall.console.login_families import identity_provider_families, login_families
from longhall.console.metrics import Registry, labels
from longhall.console.outbox_families import outbox_families
from longhall.console.process import build_families, process_families
from longhall.console.routes import open_console
from longhall.console.scrub_families import scrub_families
from longhall.console.sources import DoorStatus
from longhall.console.tls_families import tls_families
from longhall.directory.directory import Directory
from longhall.doors.amqp.server import AmqpServer
from longhall.doors.kafka.brokers import broker_names
from longhall.doors.kafka.door import Door
from longhall.doors.kafka.login_guard import LoginGuard
from longhall.doors.kafka.server import KafkaServer
from longhall.doors.sqs.door import Door as SqsDoor
from longhall.doors.sqs.server import SqsServer
from longhall.doors.sqs.signing import Verifier
from longhall.doors.stomp.server import StompServer
from longhall.front.admission import Budget
from longhall.front.audit import AuditTrail
from longhall.front.authenticator import NONE, REQUIRED
from longhall.front.client_limits import ClientLimits
from longhall.front.connection_registry import ConnectionRegistry
from longhall.front.guard import AccessGuard
from longhall.names import CATALOGUE_SHARD
from longhall.node import cluster_view
from longhall.node.addresses import Address, parse_address
from longhall.node.authentication import NodeAuthentication
from longhall.node.broker_configurations import BrokerConfigurationFollower, ConnectionLimits
from longhall.node.cluster_node import ClusterNode
from longhall.node.credentials import Known
from longhall.node.data_directory import identity_of_leader, identity_of_lone_node, tell_recovery
from longhall.node.directory_follower import DirectoryFollower
from longhall.node.group_process import PARTITIONS_APART
from longhall.node.join_state import JoinState
from longhall.node.management_doors import ManagementDoors
from longhall.node.memory_shares import shares_of
from longhall.node.readiness import DRAINING, Readiness
from longhall.node.recovery_view import NodeRecovery
from longhall.node.room_settings import broker_settings, options_of, sqs_limits_of
from longhall.node.scaler import scaler_of
from longhall.node.scrubs import NodeScrubs, papers_of
from longhall.node.sealing import seal_messages
from longhall.node.settings import Settings
from longhall.node.status import NodeStatus
from longhall.node.tls import NodeTls, has_tls
from longhall.node.topic_writers import TopicWriters
from longhall.node.upgrades import NodeUpgrades
from longhall.node.workers import Workers
from longhall.queues.messages import QueueView
from longhall.service.access import AccessService
from longhall.service.accounts import AccountService
from longhall.service.administration import (
    AddGroup,
    AddHost,
    BalanceGroups,
    DescribeReplication,
    DrainHost,
    MapCluster,
    MoveReplica,
    RaiseFeatureLevel,
    RemoveGroup,
    ReplicaProgress,
    ReplicationProgress,
    ScrubNodes,
    SetReplicationFactor,
    SpreadReplicas,
    TransferLeadership,
)
from longhall.service.broker_operations import ConfigureBroker, ListBrokerConfigurations
from longhall.service.exchanges import ExchangeService
from longhall.service.kafka_operations import AnswerKafkaRequest
from longhall.service.limits import LimitService
from longhall.service.local import LocalBroker
from longhall.service.policies import PolicyService
from longhall.service.router import Router
from longhall.service.sessions import Sessions
from longhall.world.ports import World

DIRECTORY_S_MAX: Final = 10.0  # How long the start of a worker waits for the directory.

_log = logging.getLogger("longhall.node")
R = TypeVar("R")


@final
class Node:
    """One running node."""

    def __init__(
        self,
        world: World,
        settings: Settings,
        place: JoinState | None = None,
        colleagues: Workers | None = None,
        tls: NodeTls | None = None,
    ) -> None:
        self.kafka = Address("", 0)
        self.sqs = Address("", 0)
        self.amqp = Address("", 0)
        self.stomp = Address("", 0)
        self.stomp_websocket = Address("", 0)
        self.management = Address("", 0)
        self.prometheus = Address("", 0)
        self.http = Address("", 0)
        self.world = world
        self.settings = settings
        self.tls = tls if tls is not None else NodeTls(settings, world.network)
        self.known = Known(settings.credentials, settings.keys)
        self.colleagues = colleagues  # The view of the other workers; None for a node without workers.
        self.keeps = colleagues is None or colleagues.leads_here  # True if this process owns the data directory.
        if place is not None:
            identity = place.identity
        else:
            identity = identity_of_lone_node(world, settings) if self.keeps else identity_of_leader(world, settings)
        options = msgspec.structs.replace(options_of(settings), shards=identity.shards)
        if place is not None and place.wing is not None:
            number = place.wing.number
            options = msgspec.structs.replace(options, wing=number, first_partition=number * PARTITIONS_APART + 1)
        self.hall = Hall(world, options)
        self.hall.hall_id = identity.hall_id
        self.hall.queue_secret = bytes.fromhex(identity.secret)
        self._coordinator = GroupCoordinator(self.hall)
        self._transactor = TransactionCoordinator(self.hall, self._coordinator)
        self.queues = QueueService(self.hall)
        self.broker = LocalBroker(self.queues)
        sessions = Sessions(self.queues.consumers)
        is_group = place is not None and place.wing is not None
        directory = Directory(known=False) if is_group else self.hall.catalogue.directory
        directory.known = self.keeps and (place is None or (place.identity.member and not is_group))
        audit = AuditTrail(world.entropy.bytes(8).hex(), world.clock.wall_ms) if settings.audit else None
        self.guard = AccessGuard(
            directory,
            world.clock.wall_ms,
            self._view_queue,
            authenticates=partial(_authenticates, directory, settings.authentication),
            mode=settings.permissions,
            audit=audit,
        )
        self.service = Router(self.broker, self.queues, sessions, self.guard)
        sealing = seal_messages(self.hall, self.broker, self.service, sessions, self.known.keys, self._call_catalogue)
        ExchangeService(self.hall, self.queues, self.service).register(self.broker)
        PolicyService(self.hall, self.queues, self.service).register(self.broker)
        AccountService(self.hall).register(self.broker)
        AccessService(self.hall).register(self.broker)
        LimitService(self.hall).register(self.broker)
        self.authentication = NodeAuthentication(
            world, settings, directory, self.hall.queue_secret, self.known.credentials, audit
        )
        self.writers = TopicWriters(self.hall, self.broker, self.service, self._call_catalogue)
        self.writers.write_audit(audit)
        self._housekeeper = Housekeeper(self.hall)
        self.scrubber = Scrubber(self.hall, papers_of(world, identity, place))
        self._scaler = scaler_of(self.hall, settings)
        shares = shares_of(settings.memory_bytes)
        budget = Budget(shares.requests_bytes, shares.unauthenticated_bytes)
        limits = ClientLimits(directory)
        door = Door(
            self.hall,
            self._coordinator,
            self._transactor,
            settings.data,
            broker_settings(settings),
            self.service,
            self.guard,
            sealing,
            limits,
        )
        self._kafka = KafkaServer(
            door,
            budget,
            settings.request_bytes_max,
            settings.connections_max,
            settings.connections_per_address_max,
            settings.connection_idle_ms / 1000,
            LoginGuard(self.authentication.door("kafka", settings.kafka), world.entropy, settings.kafka_session_ms_max),
        )
        self._sqs = SqsServer(
            SqsDoor(self.service, limits=sqs_limits_of(settings), clock=world.clock),
            budget,
            world.clock,
            world.entropy,
            Verifier(self.authentication.door("sqs", settings.sqs)),
            connections_max=settings.connections_max,
            connections_per_address_max=settings.connections_per_address_max,
        )
        self._amqp = AmqpServer(
            self.service,
            sessions,
            world.entropy,
            world.clock,
            budget,
            lambda: self.service.leads and self.hall.storage_full,
            self.authentication.door("amqp", settings.amqp),
            connections_max=settings.connections_max,
            connections_per_address_max=settings.connections_per_address_max,
        )
        self._stomp = StompServer(
            self.service,
            sessions,
            world.entropy,
            budget,
            self.authentication.door("stomp", settings.stomp),
            connections_max=settings.connections_max,
            connections_per_address_max=settings.connections_per_address_max,
        )
        self.authentication.close_with(self._amqp.close_outdated)
        self.authentication.close_with(self._stomp.close_outdated)
        self.authentication.close_with(self._kafka.close_outdated)
        ConnectionLimits(
            self.hall,
            settings.connections_max,
            settings.connections_per_address_max,
            [self._kafka.connections, self._sqs.connections, self._amqp.connections, self._stomp.connections],
        )
        if settings.usage:
            self.writers.write_usage(
                door,
                [
                    ("kafka", self._kafka.connections),
                    ("sqs", self._sqs.connections),
                    ("amqp", self._amqp.connections),
                    ("stomp", self._stomp.connections),
                ],
            )
        readiness = Readiness(self.hall, budget)
        self.status = NodeStatus(self.hall, self._kafka, budget, readiness)
        label = colleagues.label if colleagues is not None else ""
        if place is not None and place.wing is not None:
            label = labels(("wing", place.wing.name))
        registry = self.registry = Registry(label)
        registry.collect(process_families)
        registry.collect(build_families)
        registry.collect(partial(tls_families, self.tls))
        self._doors = ManagementDoors(self, self._amqp, budget, closed_api(settings, settings.management))
        accounts = AccountHandlers(self.authentication.secrets, world.clock)
        own_routes = (*ROUTES, *accounts.routes(), *access_routes(self.guard))
        routes = (*own_routes, *UPGRADE_ROUTES, *SCRUB_ROUTES, *KEY_ROUTES, *self._doors.routes)
        logins = self.authentication.door("http", settings.http)
        closed = closed_api(settings, settings.http)
        api = Api(self.service, routes, budget, logins, closed, access=self.guard)
        self._console: HttpServer = open_console(self.status, world.clock, registry, api)
        self.status.doors = [
            partial(_door_status, "kafka", self._kafka.connections),
            partial(_door_status, "sqs", self._sqs.connections),
            partial(_door_status, "amqp", self._amqp.connections),
            partial(_door_status, "stomp", self._stomp.connections),
            self._http_status,
            self._doors.management_status,
            self._doors.prometheus_status,
        ]
        self.cluster_node = ClusterNode(self, place) if place is not None else None  # None for a lone node.
        if self.cluster_node is not None:
            readiness.serve(self.cluster_node.peers, self.cluster_node)
            liveness = Liveness(self.cluster_node.peers)
            self._console.show("/cluster", partial(cluster_view.answer, self.cluster_node, liveness))
            registry.collect(partial(cluster_view.families_of, self.cluster_node, liveness))
            api.answer_also(HOST_ROUTES)
            api.answer_also(recovery_routes(NodeRecovery(self.cluster_node.recovery)))
            if self.cluster_node.wings is not None:
                api.answer_also(GROUP_ROUTES)
        main = self.cluster_node.main if self.cluster_node is not None else None
        self._configurations = BrokerConfigurationFollower(
            self.hall, self.service.dispatch if main is None else main.call, is_group=main is not None
        )
        self.directory_follower = DirectoryFollower(
            self.hall, directory, self.service.dispatch if main is None else main.call
        )
        scrubs = NodeScrubs(self)
        self._register_operations(scrubs)
        registry.collect(partial(scrub_families, scrubs))
        registry.collect(partial(login_families, self.authentication.authenticator.failed_logins))
        if self.authentication.authenticator.provider is not None:
            registry.collect(partial(identity_provider_families, self.authentication.authenticator.provider.reads))
        registry.collect(partial(outbox_families, self.queues.outbox))
        registry.collect(partial(access_families, self.guard))
        registry.collect(partial(limit_families, limits))
        if audit is not None:
            registry.collect(partial(audit_families, audit))
        if self.cluster_node is not None:
            scrubs.serve(self.cluster_node.peers)
            self._doors.managed.serve(self.cluster_node.peers)
        if colleagues is not None:
            registry.others = colleagues.others_metrics
            self._console.show("/metrics", partial(colleagues.show_metrics, registry))
            peers = colleagues.attach(self)
            readiness.serve(peers)
            self._doors.managed.serve(peers)

    async def start(self, on_failure: Callable[[OSError], None]) -> None:
        """Recover and open the doors. OSError or LonghallError if that is not possible."""
        self.hall.commits.on_failure = on_failure
        if self.keeps:
            await self._recover()
        self.authentication.start(self.hall.background)
        await self._open()
        self.writers.start()
        if self.cluster_node is not None:
            await self.cluster_node.join()
            self._configurations.start()
            self.directory_follower.start()
            return
        if self.colleagues is not None:
            self.directory_follower.start()
            try:
                async with asyncio.timeout(DIRECTORY_S_MAX):
                    await self.directory_follower.known()
            except TimeoutError:
                _log.warning("the users are not known yet; until then nobody can log in here")
            await self.colleagues.join()
            self._configurations.start()
            return
        self.status.state = None

    async def _recover(self) -> None:
        hall = self.hall
        began_ms = self.world.clock.monotonic_ms()
        report = recover(hall) if self.cluster_node is None else await self.cluster_node.recover()
        await hall.commits.durable()
        hall.recovery_seconds = (self.world.clock.monotonic_ms() - began_ms) / 1000
        _log.info(
            "recovered",
            extra={
                "entries": report.entries,
                "topics": len(hall.routes),
                "partitions": len(hall.partitions),
                "seconds": hall.recovery_seconds,
            },
        )
        tell_recovery(hall, report)
        hall.wal.prepare_spare()
        self._housekeeper.start()
        self.scrubber.start()
        if self.cluster_node is None:
            self._serve()

    def _serve(self) -> None:
        """Start the background work that only the leader of a hall does."""
        self._coordinator.arm()
        self._transactor.start()
        self.queues.start()
        self._scaler.start()

    def lead(self) -> None:
        """Lead the hall. Sessions of group members start again, so that members have time to find this node."""
        for groups in self.hall.groups:
            groups.restore(msgspec.msgpack.decode(msgspec.msgpack.encode(groups.snapshot())), self.hall.time.now_ms())
        self._serve()

    async def _open(self) -> None:
        settings = self.settings
        kafka = parse_address(settings.kafka)
        sqs = parse_address(settings.sqs)
        amqp = parse_address(settings.amqp)
        http = parse_address(settings.http)
        door = self._kafka.door
        self.kafka = Address(kafka.host, await self._kafka.open(self.tls.network_of("kafka"), kafka.host, kafka.port))
        advertised = parse_address(settings.advertised_kafka) if settings.advertised_kafka else self.kafka
        door.host = "127.0.0.1" if advertised.is_everywhere else advertised.host
        door.port = advertised.port or self.kafka.port
        self.sqs = Address(sqs.host, await self._sqs.open(self.tls.network_of("sqs"), sqs.host, sqs.port))
        self._sqs.door.authority = str(self.sqs)
        self._sqs.door.scheme = "https" if has_tls(settings, "sqs") else "http"
        self.amqp = Address(amqp.host, await self._amqp.open(self.tls.network_of("amqp"), amqp.host, amqp.port))
        stomp, websocket = parse_address(settings.stomp), parse_address(settings.stomp_websocket)
        self.stomp = Address(stomp.host, await self._stomp.open(self.tls.network_of("stomp"), stomp.host, stomp.port))
        self.stomp_websocket = Address(
            websocket.host,
            await self._stomp.open_websocket(self.tls.network_of("stomp_websocket"), websocket.host, websocket.port),
        )
        self.management, self.prometheus = await self._doors.open()
        self.http = Address(http.host, await self._console.start(self.tls.network_of("http"), http.host, http.port))
        self._scaler.http = str(self.http)

    def _http_status(self) -> DoorStatus:
        return DoorStatus("http", self._console.connection_count, self._console.refused.count)

    def _view_queue(self, name: str) -> QueueView | None:
        return self.service.view(name)

    @property
    def kafka_door(self) -> Door:
        """The object that all Kafka handlers use."""
        return self._kafka.door

    @property
    def amqp_server(self) -> AmqpServer:
        """The AMQP door."""
        return self._amqp

    def name(self, node_id: int, rack: str) -> None:
        """Set the number and the rack of this node."""
        self.hall.name_broker(node_id)
        self._kafka.door.node_id = node_id
        self._kafka.door.rack = rack

    def be_group(self, number: int, main: GroupClient) -> None:
        """Serve as the broker of a wing, with this number: `main` answers requests for topics stored elsewhere."""
        self.hall.name_broker(number)
        self._kafka.door.node_id = number
        self._kafka.door.main = main

    def _call_catalogue(self, operation: Operation[R]) -> Pending[R]:
        """Carry out an operation at the leader of the catalogue, which for a wing is that of the main hall."""
        main = self.cluster_node.main if self.cluster_node is not None else None
        return self.service.dispatch(operation) if main is None else main.call(operation)

    def _register_operations(self, scrubs: NodeScrubs) -> None:
        """Register the operations of this process beside those on queues."""
        broker = self.broker
        upgrades = NodeUpgrades(self)
        broker.also(ScrubNodes, lambda op, caller: scrubs.look(begin=op.begin))
        broker.also(RaiseFeatureLevel, lambda op, caller: upgrades.upgrade(op.level, dry_run=op.dry_run))
        broker.also(AnswerKafkaRequest, lambda op, caller: self._kafka.answer_forwarded(op.frame, caller))
        broker.also(ConfigureBroker, lambda op, caller: self._configure_broker(op))
        broker.also(ListBrokerConfigurations, lambda op, caller: self.hall.catalogue.brokers)
        broker.also(DescribeReplication, lambda op, caller: self._describe_replication())
        if self.cluster_node is None:
            return
        hosts, groups = self.cluster_node.hosts, self.cluster_node.wings
        broker.also(AddHost, lambda op, caller: hosts.add(op.node))
        broker.also(DrainHost, lambda op, caller: hosts.drain(op.node))
        broker.also(MoveReplica, lambda op, caller: hosts.move(op.source, op.target))
        broker.also(SpreadReplicas, lambda op, caller: hosts.spread())
        broker.also(TransferLeadership, lambda op, caller: hosts.lead(op.node))
        broker.also(SetReplicationFactor, lambda op, caller: hosts.set_factor(op.factor))
        cluster_map = self.cluster_node.map
        if cluster_map is not None:
            broker.also(MapCluster, lambda op, caller: cluster_map.page(op.prefix, op.after, op.limit))
        balancer = self.cluster_node.balancer
        if balancer is not None:
            broker.also(BalanceGroups, lambda op, caller: balancer.balance(dry_run=op.dry_run))
        if groups is not None:
            broker.also(AddGroup, lambda op, caller: groups.add(op.name, tuple(op.hosts), op.reserved))
            broker.also(RemoveGroup, lambda op, caller: groups.remove(op.name))

    async def _configure_broker(self, op: ConfigureBroker) -> None:
        known = broker_names(self._kafka.door)
        await configure_broker(
            self.hall, op.broker, op.changes, known, replace=op.replace, validate_only=op.validate_only
        )

    async def _describe_replication(self) -> ReplicationProgress:
        now_ms = self.hall.time.now_ms()
        if self.cluster_node is not None:
            return cluster_view.progress_of(self.cluster_node, now_ms)
        shard = self.hall.shards[CATALOGUE_SHARD]
        here = ReplicaProgress(node=self._kafka.door.node_id, index=shard.sequence, caught_up_ms=now_ms)
        return ReplicationProgress(committed=shard.committed, replicas=[here])

    async def stop(self) -> None:
        """Drain, write a checkpoint, and close. A leader transfers its leadership first and writes no checkpoint."""
        self.status.state = DRAINING
        self.hall.background.close()
        await self.writers.stop()
        if self.cluster_node is not None and await self.cluster_node.hand_over():
            await self.drop()
            return
        if self.cluster_node is not None:
            await self.cluster_node.retire()
        self._kafka.stop_accepting()
        self._sqs.stop_accepting()
        self._amqp.stop_accepting()
        self._stomp.stop_accepting()
        drain_s = self.settings.drain_ms / 1000
        await asyncio.gather(
            self._kafka.drain(drain_s),
            self._sqs.drain(drain_s),
            self._amqp.drain(drain_s),
            self._stomp.drain(drain_s),
            self._console.drain(drain_s),
            self._doors.drain(drain_s),
        )
        await self.writers.stop()  # Again, for what clients did meanwhile.
        await self._scaler.stop()
        await self._configurations.stop()
        await self.directory_follower.stop()
        await self.authentication.stop()
        if self.colleagues is not None:
            await self.colleagues.leave()
        if not self.keeps:
            self._close_consoles()
            await asyncio.sleep(0)
            return
        await self.queues.stop()
        self._coordinator.stop()
        self._kafka.door.share_groups.stop()
        await self._transactor.stop()
        await self.scrubber.stop()
        await self._housekeeper.stop()
        written = False
        if self.hall.commits.failure is None:
            try:
                await checkpoint(self.hall, last=True)
                written = True
            except OSError as error:
                _log.warning("no checkpoint at the end; the next start recovers", extra={"reason": str(error)})
        if self.cluster_node is not None:
            await self.cluster_node.withdraw()
            await self.cluster_node.leave(cleanly=written)
        self._close_consoles()
        self.hall.files.close()
        self.hall.wal.close()
        await asyncio.sleep(0)

    def _close_consoles(self) -> None:
        self._console.close()
        self._doors.close()

    def let_go(self) -> None:
        """Close Kafka connections that have waited too long for a commit, so that their clients ask another node."""
        self._kafka.let_go()

    async def drop(self) -> None:
        """Discard all state in memory: it may include entries that were never committed, and never acknowledged."""
        self.hall.background.close()
        await self.writers.end()
        await self._scaler.stop()
        await self._configurations.stop()
        await self.directory_follower.stop()
        await self.authentication.stop()
        self.status.state = self.status.state or "starting anew"
        await self.scrubber.stop()
        self.hall.commits.abandon()  # Nothing is written after this.
        self._kafka.stop_accepting()
        self._sqs.stop_accepting()
        self._amqp.stop_accepting()
        self._stomp.stop_accepting()
        for connection in list(self._kafka.connections.registered):
            connection.close()
        others: list[ConnectionRegistry[Any]] = [self._sqs.connections, self._amqp.connections, self._stomp.connections]
        for registry in others:
            for other in list(registry.registered):
                other.abort()
        if self.cluster_node is not None:
            await self.cluster_node.leave(cleanly=False)
        self._close_consoles()
        self.hall.abandon()
        await asyncio.sleep(0)


def _door_status(door: str, connections: ConnectionRegistry[Any]) -> DoorStatus:
    return DoorStatus(door, len(connections.registered), connections.refused.count)


def _authenticates(directory: Directory, mode: str) -> bool:
    """True if permissions count: clients log in as users, or it is not known yet whether there are any."""
    return mode == REQUIRED or (mode != NONE and (bool(directory.accounts.users) or not directory.known))


def closed_api(settings: Settings, address: str) -> str:
    """Why an API at this address refuses all requests; empty if it serves them."""
    if settings.credentials or settings.authentication != "none" or parse_address(address).is_loopback:
        return ""
    return "the API is open on loopback only, or to users who log in: this node was started with authentication = none"

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
from typing import Final, TypeVar, final

import msgspec

from longhall.broker.checkpoint import checkpoint
from longhall.broker.group_coordinator import GroupCoordinator
from longhall.broker.group_steps import GroupSteps
from longhall.broker.hall import Hall
from longhall.broker.housekeeper import Housekeeper
from longhall.broker.pending import Pending
from longhall.broker.queues.service import QueueService
from longhall.broker.recovery import Identity, recover
from longhall.broker.scrub import Scrubber
from longhall.broker.transaction_coordinator import TransactionCoordinator
from longhall.cluster.placement.group_client import GroupClient
from longhall.cluster.rpc.operation import Operation
from longhall.console.metrics import labels
from longhall.directory.directory import Directory
from longhall.doors.amqp.server import AmqpServer
from longhall.doors.kafka.door import Door
from longhall.errors import Code, LonghallError
from longhall.front.admission import Budget
from longhall.front.audit import AuditTrail
from longhall.front.authenticator import NONE, REQUIRED
from longhall.front.guard import AccessGuard
from longhall.node.addresses import DOORS, Address
from longhall.node.authentication import NodeAuthentication
from longhall.node.broker_configurations import BrokerConfigurationFollower
from longhall.node.client_limits import NodeLimits
from longhall.node.cluster_node import ClusterNode
from longhall.node.credentials import known_of
from longhall.node.data_directory import identity_of_leader, identity_of_lone_node, tell_recovery
from longhall.node.directory_follower import DirectoryFollower
from longhall.node.group_process import PARTITIONS_APART
from longhall.node.http_doors import HttpDoors
from longhall.node.join_state import JoinState
from longhall.node.memory_shares import shares_of
from longhall.node.message_doors import BrokerParts, FrontParts, MessageDoors
from longhall.node.metrics import collect_metrics
from longhall.node.operations import register_node_operations
from longhall.node.readiness import DRAINING
from longhall.node.room_settings import options_of
from longhall.node.scaler import scaler_of
from longhall.node.scrubs import NodeScrubs, papers_of
from longhall.node.sealing import seal_messages
from longhall.node.settings import Settings
from longhall.node.tls import NodeTls
from longhall.node.topic_writers import TopicWriters
from longhall.node.workers import Workers
from longhall.queues.messages import QueueView
from longhall.service.access import AccessService
from longhall.service.accounts import AccountService
from longhall.service.answers import AnswerService
from longhall.service.exchanges import ExchangeService
from longhall.service.group_settles import GroupSettles
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
        self.addresses = {door: Address("", 0) for door in DOORS}  # Where each listens, once it is open.
        self.world = world
        self.settings = settings
        self.tls = tls if tls is not None else NodeTls(settings, world.network)
        self.known = known_of(world, settings)
        self.colleagues = colleagues  # The view of the other workers; None for a node without workers.
        self.keeps = colleagues is None or colleagues.leads_here  # True if this process owns the data directory.
        identity = _identity_of(world, settings, place, self.keeps)
        self.hall = _hall_of(world, settings, place, identity)
        self._coordinator = GroupCoordinator(self.hall)
        self._transactor = TransactionCoordinator(self.hall, self._coordinator)
        self.queues = QueueService(self.hall)
        self.broker = LocalBroker(self.queues)
        sessions = Sessions(self.queues.consumers)
        is_group = place is not None and place.wing is not None
        directory = Directory(known=False) if is_group else self.hall.catalogue.directory
        directory.known = self.keeps and (place is None or (place.identity.member and not is_group))
        audit = AuditTrail(world.entropy.bytes(8).hex(), world.clock.wall_ms) if settings.audit else None
        self.guard = _guard_of(world, settings, directory, self._view_queue, audit)
        self.service = Router(self.broker, self.queues, sessions, self.guard)
        sealing = seal_messages(
            self.hall, self.broker, self.service, sessions, self.known.keys, self._call_catalogue, directory
        )
        self._register_services()
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
        self.limits = limits = NodeLimits(self.hall, self.broker, directory, self._call_catalogue)
        front = FrontParts(self.guard, self.authentication, sealing, limits, budget)
        parts = BrokerParts(self.hall, self._coordinator, self._transactor)
        self.doors = MessageDoors(settings, parts, self.service, sessions, front)
        if settings.usage:
            self.writers.write_usage(self.kafka_door, self.doors.connections())
        self._http_doors = HttpDoors(self, front, _label_of(place, colleagues), self._call_catalogue)
        self.status, self.registry = self._http_doors.status, self._http_doors.registry
        self.cluster_node = ClusterNode(self, place) if place is not None else None  # None for a lone node.
        self._configurations = BrokerConfigurationFollower(self.hall, self._call_catalogue, is_group=is_group)
        self.directory_follower = DirectoryFollower(self.hall, directory, self._call_catalogue)
        scrubs = NodeScrubs(self)
        register_node_operations(self, scrubs)
        collect_metrics(self, scrubs, limits, audit)
        if self.cluster_node is not None:
            if self.cluster_node.group_directory is not None:
                self._scaler.capacity = self.cluster_node.group_directory
            self._http_doors.serve_cluster(self.cluster_node)
            scrubs.serve(self.cluster_node.peers)
        if colleagues is not None:
            self._http_doors.serve_workers(colleagues, colleagues.attach(self))

    def _register_services(self) -> None:
        """Have the broker of this process carry out what the leader of a hall does, beside the operations of queues."""
        hall, queues, broker = self.hall, self.queues, self.broker
        steps = GroupSteps(self._transactor)
        GroupSettles(hall, queues, steps).register(broker)
        ExchangeService(hall, queues, self.service, steps).register(broker)
        PolicyService(hall, queues, self.service).register(broker)
        AnswerService(queues, self.guard.check_write).register(broker)
        AccountService(hall).register(broker)
        AccessService(hall).register(broker)

    async def start(self, on_failure: Callable[[OSError], None]) -> None:
        """Recover and open the doors. OSError or LonghallError if that is not possible."""
        self.hall.commits.on_failure = on_failure
        if self.keeps:
            await self._recover()
        self.authentication.start(self.hall.background)
        self.limits.reporter.start()
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
        await self.doors.open(self.tls)
        self.addresses.update(self.doors.addresses)
        self.addresses.update(await self._http_doors.open())
        self._scaler.http = str(self.http)

    @property
    def kafka(self) -> Address:
        """Where the Kafka door listens."""
        return self.addresses["kafka"]

    @property
    def sqs(self) -> Address:
        """Where the SQS door listens."""
        return self.addresses["sqs"]

    @property
    def amqp(self) -> Address:
        """Where the AMQP door listens."""
        return self.addresses["amqp"]

    @property
    def http(self) -> Address:
        """Where the console and the HTTP API listen."""
        return self.addresses["http"]

    def door_addresses(self) -> dict[str, str]:
        """Where every door listens, as text, by its name in the settings."""
        return {door: str(address) for door, address in self.addresses.items()}

    def _view_queue(self, name: str) -> QueueView | None:
        """A queue, for the guard. NOT_READY while its policy may be unknown here: it may deny."""
        view = self.service.view(name)
        if view is None and not self.service.knows_queues:
            raise LonghallError(Code.NOT_READY, "this process does not know the queues yet; ask again in a moment")
        return view

    @property
    def kafka_door(self) -> Door:
        """The object that all Kafka handlers use."""
        return self.doors.kafka.door

    @property
    def amqp_server(self) -> AmqpServer:
        """The AMQP door."""
        return self.doors.amqp

    def name(self, node_id: int, rack: str) -> None:
        """Set the number and the rack of this node."""
        self.hall.name_broker(node_id)
        self.kafka_door.node_id = node_id
        self.kafka_door.rack = rack

    def be_group(self, number: int, main: GroupClient) -> None:
        """Serve as the broker of a wing, with this number: `main` answers requests for topics stored elsewhere."""
        self.hall.name_broker(number)
        self.kafka_door.node_id = number
        self.kafka_door.main = main

    def _call_catalogue(self, operation: Operation[R]) -> Pending[R]:
        """Carry out an operation at the leader of the catalogue, which for a wing is that of the main hall."""
        main = self.cluster_node.main if self.cluster_node is not None else None
        return self.service.dispatch(operation) if main is None else main.call(operation)

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
        self.doors.stop_accepting()
        drain_s = self.settings.drain_ms / 1000
        await asyncio.gather(self.doors.drain(drain_s), self._http_doors.drain(drain_s))
        await self.writers.stop()  # Again, for what clients did meanwhile.
        await self._scaler.stop()
        await self.limits.reporter.stop()
        await self._configurations.stop()
        await self.directory_follower.stop()
        await self.authentication.stop()
        if self.colleagues is not None:
            await self.colleagues.leave()
        if not self.keeps:
            self._http_doors.close()
            await asyncio.sleep(0)
            return
        await self.queues.stop()
        self._coordinator.stop()
        self.kafka_door.share_groups.stop()
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
        self._http_doors.close()
        self.hall.files.close()
        self.hall.wal.close()
        await asyncio.sleep(0)

    def let_go(self) -> None:
        """Close Kafka connections that have waited too long for a commit, so that their clients ask another node."""
        self.doors.kafka.let_go()

    async def drop(self) -> None:
        """Discard all state in memory: it may include entries that were never committed, and never acknowledged."""
        self.hall.background.close()
        await self.writers.end()
        await self._scaler.stop()
        await self.limits.reporter.stop()
        await self._configurations.stop()
        await self.directory_follower.stop()
        await self.authentication.stop()
        self.status.state = self.status.state or "starting anew"
        await self.scrubber.stop()
        self.hall.commits.abandon()  # Nothing is written after this.
        self.doors.abort()
        if self.cluster_node is not None:
            await self.cluster_node.leave(cleanly=False)
        self._http_doors.close()
        self.hall.abandon()
        await asyncio.sleep(0)


def _authenticates(directory: Directory, mode: str) -> bool:
    """True if permissions count: clients log in as users, or it is not known yet whether there are any."""
    return mode == REQUIRED or (mode != NONE and (bool(directory.accounts.awake) or not directory.known))


def _guard_of(
    world: World,
    settings: Settings,
    directory: Directory,
    view_queue: Callable[[str], QueueView | None],
    audit: AuditTrail | None,
) -> AccessGuard:
    return AccessGuard(
        directory,
        world.clock.wall_ms,
        view_queue,
        authenticates=partial(_authenticates, directory, settings.authentication),
        mode=settings.permissions,
        audit=audit,
    )


def _label_of(place: JoinState | None, colleagues: Workers | None) -> str:
    """The label that tells the metrics of this process from those of others of the node."""
    if place is not None and place.wing is not None:
        return labels(("wing", place.wing.name))
    return colleagues.label if colleagues is not None else ""


def _identity_of(world: World, settings: Settings, place: JoinState | None, keeps: bool) -> Identity:
    """The identity of the data directory. A worker that does not own the directory reads that of the leader."""
    if place is not None:
        return place.identity
    return identity_of_lone_node(world, settings) if keeps else identity_of_leader(world, settings)


def _hall_of(world: World, settings: Settings, place: JoinState | None, identity: Identity) -> Hall:
    options = msgspec.structs.replace(options_of(settings), shards=identity.shards)
    if place is not None and place.wing is not None:
        number = place.wing.number
        options = msgspec.structs.replace(options, wing=number, first_partition=number * PARTITIONS_APART + 1)
    hall = Hall(world, options)
    hall.hall_id = identity.hall_id
    hall.queue_secret = bytes.fromhex(identity.secret)
    return hall

"""A simulated cluster: whole nodes with their doors, each on a host of its own, and a shared ZooKeeper.

A node that has to restart (it stepped down, its log cannot go on, its data is damaged) does so as a new process, so
that nothing of its memory is left.
"""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, final

import msgspec

from longhall.broker.apply import ReplicaFailed
from longhall.broker.feature_gates import NEWEST
from longhall.broker.queues.service import QueueService
from longhall.broker.recovery import read_identity
from longhall.cluster.membership.election import REPLICAS_MAX
from longhall.cluster.membership.feature_level import level_of
from longhall.cluster.membership.member_file import read_member_file
from longhall.cluster.membership.reassignment import leaving_of
from longhall.cluster.replication.full_sync import WHOLE
from longhall.cluster.replication.group_replica import Role
from longhall.cluster.replication.repair_policy import Remedy, RepairPolicy
from longhall.coordination.encoding import LEVEL, SHARDS, WINGS, decode_level, decode_shard
from longhall.coordination.ports import CoordinationError, Coordinator, ReplicationGroup, ShardState
from longhall.directory.directory import Directory
from longhall.errors import Code, LonghallError
from longhall.log.background_jobs import BACKGROUND_JOBS
from longhall.names import CATALOGUE_SHARD
from longhall.node.addresses import parse_address
from longhall.node.assembly import Node
from longhall.node.authentication import NodeAuthentication
from longhall.node.group_process import settings_of
from longhall.node.join_state import RecordDoubted, take_place
from longhall.node.record_wait import RecordWait, copy_report
from longhall.node.room_settings import options_of
from longhall.node.settings import Settings
from simulation.checkers.violation import Violation, demand
from simulation.loop import PowerCut, Process
from simulation.replicas.host_names import PEERS_PORT, SECRETS, name_of, numbers_up_to
from simulation.replicas.node_observer import NodeObserver, member_of
from simulation.scenarios.machine import (
    AMQP_PORT,
    KAFKA_PORT,
    MANAGEMENT_PORT,
    PROMETHEUS_PORT,
    SQS_PORT,
    STOMP_PORT,
    STOMP_WEBSOCKET_PORT,
)
from simulation.scenarios.node import HTTP_PORT, settings_for
from simulation.world import Host, SimulatedWorld, Simulation
from simulation.zookeeper import SimulatedZooKeeper

if TYPE_CHECKING:
    from simulation.replicas.group_processes import GroupProcesses

SESSION_MS: Final = 4_000
LAG_MS: Final = 1_500
DIGEST_MS: Final = 2_000
LOOK_S: Final = 0.05
STOP_S: Final = 60.0


class NodeEnded(Exception):
    """The node has to be started again."""


@final
class SimulatedCluster:
    """The hosts and nodes of one hall. With `wing` its nodes are those of that wing, beside the nodes of the
    `main` cluster.
    """

    def __init__(
        self,
        simulation: Simulation,
        size: int = 3,
        wing: ReplicationGroup | None = None,
        main: SimulatedCluster | None = None,
        *,
        factor: int = REPLICAS_MAX,
    ) -> None:
        self.simulation = simulation
        self.numbers = sorted(wing.hosts) if wing is not None else numbers_up_to(size)
        self.wing = wing
        self.main = main
        self.group_processes: GroupProcesses | None = None  # Starts the wing processes, if the scenario has wings.
        self.zookeeper: SimulatedZooKeeper = main.zookeeper if main is not None else SimulatedZooKeeper(simulation)
        self.watch = NodeObserver(self)
        self.nodes: dict[int, Node] = {}
        self.down: set[int] = set()
        self.lost: set[int] = set()  # Hosts that never come back; no check waits for them.
        self.damage_allowed = True  # True if a node may find its directory damaged.
        self.fetches: Counter[int] = Counter()  # Full syncs by node.
        self.tasks: list[asyncio.Task[None]] = []
        self.restarts = 0
        self.checkpoint_bytes = 0  # Of every node; 0 lets the seed draw it.
        self.counts_usage = False
        # Nodes of an earlier version, with the highest feature level that they know.
        self.level_max: dict[int, int] = {}
        self.refusals = 0  # Starts refused because the version was too old.
        self._factor = factor
        self.on_node: Callable[[Node], None] = _nothing  # Called with every node before it starts.
        # By node: its repair history, which survives a restart of the replica.
        self.repairs: dict[int, RepairPolicy] = {}
        self._fetch_from: dict[int, int] = {}
        self._damaged: set[int] = set()
        self._doubts: dict[int, RecordDoubted] = {}  # Fenced nodes that wait for another record.
        self.waits = 0  # Number of such waits.
        self._stopping: set[int] = set()
        self._chance: random.Random = simulation.stream(f"fleet/{wing.name}" if wing is not None else "fleet")

    @property
    def addresses(self) -> list[str]:
        """Kafka addresses of all nodes."""
        return [f"{name_of(node)}:{KAFKA_PORT}" for node in self.numbers]

    @property
    def sqs_places(self) -> list[tuple[str, int]]:
        """SQS addresses of all nodes."""
        return [(name_of(node), SQS_PORT) for node in self.numbers]

    def host(self, node: int) -> Host:
        """The machine of a node, or its side process there."""
        machine = self.simulation.host(name_of(node))
        return machine.side_process(self.wing.name) if self.wing is not None else machine

    def start(self) -> None:
        """Start all nodes."""
        self.tasks.append(asyncio.ensure_future(self.watch.look()))
        if self.group_processes is not None:
            self.tasks.append(asyncio.ensure_future(self.group_processes.look()))
        for node in self.numbers:
            self.tasks.append(asyncio.ensure_future(self._supervise(node)))

    def skew_clocks(self, offsets_ms: tuple[int, ...], drift_max: float) -> None:
        """Give every host a clock offset and a drift, before any node starts."""
        for number in self.numbers:
            host = self.host(number)
            host.clock_offset_ms = self._chance.choice(offsets_ms)
            host.clock_drift = self._chance.uniform(-drift_max, drift_max)

    def leader(self) -> Node | None:
        """The node that serves, or None."""
        found = self.serving()
        return found[1] if found is not None else None

    def inside(self) -> tuple[Process, QueueService] | None:
        found = self.serving()
        return (found[0], found[1].queues) if found is not None else None

    def serving(self) -> tuple[Process, Node] | None:
        """The process and the node that lead under the newest epoch, or None."""
        newest: tuple[int, Process, Node] | None = None
        for number, node in sorted(self.nodes.items()):
            process, cluster_node = self.host(number).process, node.cluster_node
            if process is None or not process.alive or cluster_node is None or not cluster_node.session.leads(0):
                continue
            epoch = cluster_node.session.epoch(CATALOGUE_SHARD)
            if newest is None or epoch > newest[0]:
                newest = (epoch, process, node)
        return newest[1:] if newest is not None else None

    def cut_power(self) -> None:
        for node in self.numbers:
            self.host(node).cut_power()

    @property
    def boots(self) -> int:
        return sum(self.host(node).boots for node in self.numbers)

    async def up(self, seconds: float) -> None:
        """Wait at most so long until there is a leader and every replica is in sync."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + seconds
        while not self.is_whole():
            for task in self.tasks:
                if task.done():
                    task.result()
            demand(
                loop.time() < deadline,
                f"not every replica is in sync {seconds} s after everything was healed: {self.stand()}",
            )
            await asyncio.sleep(LOOK_S)
        if self.group_processes is not None:
            await self.group_processes.up(deadline - loop.time())

    async def wait_until_settled(self) -> None:
        await self.up(60.0)

    def recorded_level(self) -> int:
        """The feature level on record."""
        return level_of(decode_level(LEVEL, self.zookeeper.peek(LEVEL)).level)

    # Calls of faults.

    def record(self) -> ShardState | None:
        """The record at the coordinator, which only a scenario can read at once."""
        path = f"{SHARDS}/{CATALOGUE_SHARD}"
        if self.wing is not None:
            path = f"{WINGS}/{self.wing.name}{path}"
        found = self.zookeeper.peek(path)
        return decode_shard(path, found) if found is not None else None

    def hall_id(self) -> str:
        return next((node.hall.hall_id for node in self.nodes.values()), "")

    def leader_number(self) -> int:
        state = self.record()
        return state.leader if state is not None else 0

    def in_sync(self) -> list[int]:
        state = self.record()
        return sorted(state.in_sync) if state is not None else []

    def cut_coordinator(self, node: int) -> None:
        self.zookeeper.cut(name_of(node))

    def heal_coordinator(self, node: int) -> None:
        self.zookeeper.heal(name_of(node))

    def lose_words(self, chance: float) -> None:
        self.zookeeper.behaviour.lose_before = chance / 2
        self.zookeeper.behaviour.lose_after = chance / 2

    def expire_session(self, node: int) -> None:
        self.zookeeper.expire(name_of(node))

    def pause(self, node: int) -> Callable[[], None] | None:
        machine = self.host(node)
        if machine.process is None or not machine.process.alive:
            return None
        there = [host.process for host in (machine, *machine.side_processes.values())]
        paused = [process for process in there if process is not None and process.alive]
        for process in paused:
            process.pause()
        self.zookeeper.pause(name_of(node))

        def resume() -> None:
            self.zookeeper.resume(name_of(node))
            for process in paused:
                process.resume()

        return resume

    async def stop(self, node: int) -> None:
        host = self.host(node)
        running, process = self.nodes.get(node), host.process
        if running is None or process is None or not process.alive:
            return
        self._stopping.add(node)
        try:
            stopping = process.start(running.stop())
            if self.group_processes is not None:
                await self.group_processes.stop(node)
            waited: list[asyncio.Future[Any]] = [stopping, process.ended]
            await asyncio.wait(waited, timeout=STOP_S, return_when=asyncio.FIRST_COMPLETED)
            if stopping.done() and not isinstance(stopping.exception(), PowerCut | OSError | None):
                stopping.result()
            host.kill()
        finally:
            self._stopping.discard(node)

    async def start_copy(self, node: int, seconds: float) -> None:
        host = self.simulation.host(f"copy-of-{name_of(node)}")
        host.platter = self.host(node).platter.copy()
        world = host.boot(BACKGROUND_JOBS)
        life = world.process.start(self._live(world, node, host.name))
        waited: list[asyncio.Future[Any]] = [life, world.process.ended]
        await asyncio.wait(waited, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        host.kill()
        if life.done():
            self.simulation.trace.note("copy ended", host.name, repr(life.exception())[:200])
            if not isinstance(life.exception(), PowerCut | OSError | NodeEnded | CoordinationError | LonghallError):
                life.result()

    # Incarnations.

    async def _supervise(self, node: int) -> None:
        host = self.host(node)
        while True:
            if not self._may_live(node):
                await asyncio.sleep(0.1)
                continue
            world = host.boot(BACKGROUND_JOBS)
            life = world.process.start(self._live(world, node, name_of(node)))
            waited: list[asyncio.Future[Any]] = [life, world.process.ended]
            await asyncio.wait(waited, return_when=asyncio.FIRST_COMPLETED)
            if life.done():
                life.exception()  # Marks the exception as retrieved; it is handled when the process has ended.
            if node in self._stopping:
                await world.process.ended
            if life.done() and isinstance(life.exception(), NodeEnded | CoordinationError):
                host.end()  # The next node starts in the same process, whose side processes are still running.
            else:
                host.kill()
                if self.group_processes is not None:
                    self.group_processes.gone(node)
            self.nodes.pop(node, None)
            if life.done():
                self._ended(node, life.exception())
            await asyncio.sleep(self._chance.choice((0.05, 0.3, 1.5)))

    def _may_live(self, node: int) -> bool:
        if self.main is None or self.wing is None:
            return node not in self.down and node not in self.lost
        assert self.main.group_processes is not None
        return self.main.group_processes.wants(node, self.wing.name)

    def _ended(self, node: int, error: BaseException | None) -> None:
        self.simulation.trace.note("node ended", name_of(node), repr(error)[:200])
        if isinstance(error, RecordDoubted):
            self._doubts[node] = error
            return
        if isinstance(error, LonghallError) and error.code is Code.STORAGE_DAMAGED and self.damage_allowed:
            repairs = self.repairs.setdefault(node, RepairPolicy())
            if not isinstance(error, ReplicaFailed) or repairs.failed(error) is Remedy.FULL_SYNC:
                self._damaged.add(node)
            return
        if isinstance(error, LonghallError) and error.code is Code.NOT_READY:
            return
        if isinstance(error, LonghallError) and error.code is Code.UNSUPPORTED_VERSION and node in self.level_max:
            self.refusals += 1
            return
        if error is None:
            raise Violation(f"{name_of(node)} ended without a word")
        if not isinstance(error, PowerCut | OSError | NodeEnded | CoordinationError):
            raise error

    async def _live(self, world: SimulatedWorld, number: int, name: str) -> None:
        settings = self._settings(world, number, name)
        root = self.zookeeper.coordinator(name, world.process, timeout_ms=SESSION_MS)
        await root.start()
        coordinator: Coordinator = root
        if self.wing is not None:
            coordinator = root.beside(self.wing.name)
            await coordinator.start()
        if number in self._doubts:
            await self._wait_for_record(world, coordinator, settings, self._doubts.pop(number))
            raise NodeEnded("there is a record that can be believed")
        source = self._fetch_from.pop(number, 0)
        fetched_before = world.disk.exists(WHOLE)
        state = await coordinator.shard(CATALOGUE_SHARD)
        if number in self._damaged and state is not None:
            source = state.leader
        place = await take_place(
            world,
            coordinator,
            options_of(settings),
            number,
            damaged=number in self._damaged,
            source=source,
            level_max=settings.feature_level_max,
            secrets=SECRETS,
            founder=self.wing.hosts[0] if self.wing is not None else 0,
        )
        place.root, place.wing = root, self.wing
        place.repairs = self.repairs.setdefault(number, place.repairs)
        if place.fetched:
            self._damaged.discard(number)
        self.fetches[number] += place.fetched or fetched_before
        if number in self._damaged:
            raise NodeEnded("nobody had anything to give just now")
        failed: asyncio.Future[OSError] = asyncio.get_running_loop().create_future()

        def fail(error: OSError) -> None:
            if not failed.done():
                failed.set_result(error)

        node = Node(world, settings, place)
        assert node.cluster_node is not None
        self.on_node(node)
        self.watch.observe(node.cluster_node, world.process.name)
        await node.start(fail)
        if world.process is self.host(number).process:  # Otherwise it is a copy.
            self.nodes[number] = node
        if self.group_processes is not None:
            self.group_processes.mind(number, node)
        waited: list[asyncio.Future[Any]] = [failed, node.cluster_node.fallen]
        await asyncio.wait(waited, return_when=asyncio.FIRST_COMPLETED)
        if failed.done():
            raise failed.result()
        self.restarts += 1
        if node.cluster_node.refetch_from:
            self._fetch_from[number] = node.cluster_node.refetch_from
        if node.cluster_node.damaged:
            self._damaged.add(number)
        if node.cluster_node.doubt is not None:
            self._doubts[number] = node.cluster_node.doubt
        raise NodeEnded(node.cluster_node.fallen.result())

    async def _wait_for_record(
        self, world: SimulatedWorld, coordinator: Coordinator, settings: Settings, doubt: RecordDoubted
    ) -> None:
        self.waits += 1
        member_file = read_member_file(world.disk, world.entropy)
        identity = read_identity(world.disk, settings.feature_level_max)
        assert identity is not None
        report = copy_report(world, options_of(settings), identity, member_file, str(doubt))
        waiting = RecordWait(world, coordinator, identity, member_file, report, doubt, SECRETS)
        logins = NodeAuthentication(world, settings, Directory(), bytes.fromhex(identity.secret), None)
        door = logins.door("http", settings.http)
        await waiting.run(parse_address(settings.peers), parse_address(settings.http), "", door, "")

    def _settings(self, world: SimulatedWorld, number: int, name: str) -> Settings:
        settings = msgspec.structs.replace(
            settings_for(world),
            kafka=f"{name}:{KAFKA_PORT}",
            advertised_kafka=f"{name}:{KAFKA_PORT}",
            sqs=f"{name}:{SQS_PORT}",
            amqp=f"{name}:{AMQP_PORT}",
            stomp=f"{name}:{STOMP_PORT}",
            stomp_websocket=f"{name}:{STOMP_WEBSOCKET_PORT}",
            management=f"{name}:{MANAGEMENT_PORT}",
            prometheus=f"{name}:{PROMETHEUS_PORT}",
            http=f"{name}:{HTTP_PORT}",
            peers=f"{name}:{PEERS_PORT}",
            coordinator="zk://zookeeper:2181/longhall",
            node_id=number,
            session_timeout_ms=SESSION_MS,
            lag_ms_max=LAG_MS,
            digest_interval_ms=DIGEST_MS,
            feature_level_max=self.level_max.get(number, NEWEST),
            replication_factor=self._factor,
            usage=self.counts_usage,
            default_placement="hall" if self.group_processes is None else "spread",
        )
        if self.checkpoint_bytes:
            settings = msgspec.structs.replace(settings, checkpoint_bytes=self.checkpoint_bytes)
        return settings if self.wing is None else settings_of(settings, self.wing, number, NEWEST)

    def is_whole(self) -> bool:
        """True if there is a leader, all nodes run, and all replicas are in sync."""
        leader = self.leader()
        there = [node for node in self.numbers if node not in self.lost]
        if leader is None or leader.cluster_node is None or sorted(self.nodes) != there:
            return False
        session = leader.cluster_node.session
        keeping = sorted(session.replicas(CATALOGUE_SHARD))
        able = [node for node in self.numbers if node not in session.drained]
        if leaving_of(session.state, session.drained) - self.lost or len(keeping) < min(session.factor, len(able)):
            return False
        if sorted(session.in_sync(CATALOGUE_SHARD)) != [node for node in keeping if node not in self.lost]:
            return False
        for number, node in self.nodes.items():
            member = member_of(node)
            follows = member is not None and member.role_of(0) is Role.FOLLOWER
            if member is None or (number in keeping and node is not leader and not follows):
                return False
        return True

    def stand(self) -> str:
        """A summary of each node's view, for error messages."""
        stands = []
        for number, node in sorted(self.nodes.items()):
            member = node.cluster_node.member if node.cluster_node is not None else None
            session = node.cluster_node.session if node.cluster_node is not None else None
            status = member.status() if member is not None else None
            record = (session.state, sorted(session.drained)) if session is not None else None
            stands.append(f"{number}: {record} {status}")
        return "\n".join(stands)


def _nothing(node: Node) -> None:
    """The default callback for new nodes."""

"""The lifecycle of a node process: start, announce the addresses, run until a signal, and end with an exit code.

A node of a cluster may have several lives: when its state in memory must be discarded, the event loop and the world end
and start again in the same process, at the same addresses, from the data directory.
"""

from __future__ import annotations

import asyncio
import errno
import gc
import importlib
import json
import logging
import os
import signal
import socket
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final, final

import msgspec

from longhall.broker.apply import ReplicaFailed
from longhall.broker.recovery import read_identity
from longhall.cluster.membership.member_file import MEMBER_FILE, read_member_file
from longhall.cluster.replication.repair_policy import Remedy, RepairPolicy
from longhall.coordination.address import parse_address as parse_coordinator
from longhall.coordination.ports import FRONT, METADATA, NOBODY, CoordinationError, Coordinator, ReplicationGroup
from longhall.coordination.tree_client import worker_coordinator
from longhall.coordination.watches import report_failure
from longhall.directory.directory import Directory
from longhall.errors import Code, LonghallError
from longhall.log.layout import IDENTITY
from longhall.names import CATALOGUE_SHARD
from longhall.node import group_process
from longhall.node.addresses import DOORS, parse_address
from longhall.node.agent_check import AgentCheck
from longhall.node.assembly import Node
from longhall.node.authentication import NodeAuthentication
from longhall.node.cluster_secret import SecretFile, coordinator_of
from longhall.node.credentials import Known
from longhall.node.descriptors import fit, say_what_is_less
from longhall.node.exceptions import ExceptionHandler
from longhall.node.exposure import closed_api
from longhall.node.files import make_private
from longhall.node.first_administrator import make_first_administrator
from longhall.node.fork_server import ForkServer
from longhall.node.group_supervisor import GroupSupervisor
from longhall.node.join_state import JoinState, RecordDoubted, take_place
from longhall.node.logs import configure, tell
from longhall.node.record_wait import RecordWait, copy_report
from longhall.node.room_settings import group_role, options_of
from longhall.node.settings import Settings
from longhall.node.tls import PEERS, NodeTls
from longhall.node.worker import Orders, watch_parent
from longhall.node.workers import Workers
from longhall.world.real.descriptors import raise_descriptor_limit
from longhall.world.real.memory import give_back_memory, keep_memory
from longhall.world.real.network import RealNetwork
from longhall.world.real.watchdog import Watchdog
from longhall.world.real.world import RealWorld, real_world

OK: Final = 0
REFUSED: Final = 1
DISK_FAILED: Final = 5
STATE_FAILED: Final = 6  # A bug: the state in memory may differ from the log.

# A young generation this large is collected rarely; objects of hot paths are freed by their reference counts.
GC_YOUNG_OBJECTS: Final = 50_000

COORDINATOR_PAUSE_S: Final = 1.0
PRIVATE: Final = (IDENTITY, MEMBER_FILE)  # Earlier versions wrote these files readable for other users.
SPACE_PAUSE_S: Final = 5.0
# Modules that are imported late, and that every wing process needs: see `_fork_server`.
NEEDED_BY_WINGS: Final = ("longhall.coordination.zookeeper", "uvloop")

_log = logging.getLogger("longhall.node")


def run(settings: Settings, orders: Orders | None = None, wing: ReplicationGroup | None = None) -> int:
    """Run a node, or one worker of it, or its part of a wing, until SIGTERM or SIGINT; returns the exit code."""
    import uvloop

    if orders is None and settings.workers > 1:
        from longhall.node.supervisor import supervise

        return supervise(settings)
    keep_memory()
    fork_server = _fork_server(settings) if orders is None and wing is None else None
    descriptors = raise_descriptor_limit()
    asked, settings = settings, fit(settings, descriptors)
    fields: dict[str, object] | None = {"worker": orders.number} if orders is not None else None
    if wing is not None:
        fields = {"wing": wing.name}
    output = configure(settings.log_level, settings.log_format, fields=fields)
    life = Life(settings, orders, wing, GroupSupervisor(fork_server))
    life.on_first_ready = partial(say_what_is_less, asked, settings, descriptors)
    try:
        while True:
            with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
                code = runner.run(_live(life))
            if code is not None or life.ended:
                return code or OK
            gc.unfreeze()
            gc.collect()
    finally:
        output.close()


def _fork_server(settings: Settings) -> ForkServer | None:
    """The fork server for the wings of this host; None outside of clusters, and for a node without wings."""
    if settings.coordinator is None or settings.role in (FRONT, METADATA) or not hasattr(socket, "send_fds"):
        return None
    for name in NEEDED_BY_WINGS:
        importlib.import_module(name)
    return ForkServer(group_process.main)


@final
class Life:
    """What one life of a node passes to the next: addresses, wing processes, and whether it needs a full sync."""

    def __init__(
        self,
        settings: Settings,
        orders: Orders | None,
        wing: ReplicationGroup | None,
        group_supervisor: GroupSupervisor,
    ) -> None:
        self.settings = settings
        self.orders = orders  # The start parameters of a worker; else None.
        self.wing = wing  # The wing of this process; None for the main hall.
        self.secret_file: SecretFile | None = None  # Set in a cluster.
        self.tls: NodeTls | None = None  # The networks of the current life.
        self.group_supervisor = group_supervisor  # The wing processes on this host.
        self.announced = False
        self.on_first_ready: Callable[[], None] = _nothing  # Called once, when the doors are open.
        self.ended = False  # A signal arrived while the node waited for a record.
        self.repairs = RepairPolicy()
        self.refetch_from = 0
        self.damaged = False  # The copy on the disk must not be used.
        self.doubt: RecordDoubted | None = None  # Why the node is halted until there is another record.

    def keep_addresses(self, node: Node, agent: AgentCheck) -> None:
        """Use the same addresses in the next life, so that clients and other nodes find this node again."""
        assert node.cluster_node is not None
        self.settings = msgspec.structs.replace(
            self.settings,
            **node.door_addresses(),
            agent_check=str(agent.address) if agent.address is not None else None,
            peers=str(node.cluster_node.peers_at) if node.cluster_node.peers_at.port else self.settings.peers,
        )


def _nothing() -> None:
    """Do nothing."""


async def _live(life: Life) -> int | None:
    """Run one life; returns the exit code, or None if another life follows."""
    settings = life.settings
    try:
        world = real_world(settings.data, lock=life.orders is None or life.orders.leads)
    except OSError as error:
        return refuse(about_directory(settings, error))
    make_private(settings.data, PRIVATE)
    watching: asyncio.Task[None] | None = None
    try:
        if life.orders is not None:
            world.network = world.peers_network = RealNetwork(frozenset(life.orders.shared_ports))
        life.tls = NodeTls(settings, world.network)
        watching = asyncio.get_running_loop().create_task(life.tls.watch(), name="watch the certificates")
        watching.add_done_callback(report_failure)
        if life.orders is not None:
            return await _serve_as_worker(world, life, life.orders)
        if settings.coordinator is None:
            return await _serve(world, life, None)
        return await _serve_in_cluster(world, life)
    except CoordinationError as error:
        if life.announced:  # The node has served before, so it waits for the coordinator.
            _log.warning("the coordinator failed and will be asked again", extra={"reason": str(error)})
            await asyncio.sleep(COORDINATOR_PAUSE_S)
            return None
        where = (
            f"at {parse_coordinator(settings.coordinator)}" if settings.coordinator is not None else "of the workers"
        )
        return refuse(f"the coordinator {where} failed: {error}")
    except LonghallError as error:
        return refuse(str(error))
    except OSError as error:
        if error.errno == errno.EIO and settings.coordinator is not None and life.repairs.may_read_again():
            _log.error("the data directory cannot be read; the node tries again", extra={"reason": str(error)})
            await asyncio.sleep(COORDINATOR_PAUSE_S)
            return None
        if error.errno == errno.ENOSPC and life.announced and settings.coordinator is not None:
            _log.warning("there is no space to restart; the node tries again", extra={"reason": str(error)})
            await asyncio.sleep(SPACE_PAUSE_S)
            return None
        return refuse(about(settings, error))
    finally:
        if watching is not None:
            watching.cancel()
        world.close()


async def _serve_in_cluster(world: RealWorld, life: Life) -> int | None:
    from longhall.coordination.zookeeper import zookeeper_coordinator

    settings = life.settings
    if life.tls is not None:
        world.peers_network = life.tls.network_of(PEERS)
    life.secret_file = SecretFile(settings.cluster_secret)
    watching = asyncio.get_running_loop().create_task(life.secret_file.watch(), name="watch the cluster secret")
    watching.add_done_callback(report_failure)
    root = zookeeper_coordinator(coordinator_of(settings), session_timeout_ms=settings.session_timeout_ms)
    await root.start()
    coordinator: Coordinator = root
    if life.wing is not None:
        watch_parent(asyncio.get_running_loop(), partial(os._exit, OK))
        coordinator = root.beside(life.wing.name)
        await coordinator.start()
    place: JoinState | None = None
    try:
        if life.doubt is not None:
            doubt, life.doubt = life.doubt, None
            await _wait_for_record(world, life, coordinator, doubt)
            return None
        place = await _take_place(world, life, coordinator)
        place.root, place.wing, place.repairs = root, life.wing, life.repairs
        life.damaged = life.damaged and not place.fetched
        life.refetch_from = 0
        if life.damaged:  # The full sync failed: it is retried from the current leader.
            await asyncio.sleep(COORDINATOR_PAUSE_S)
            state = await coordinator.shard(CATALOGUE_SHARD)
            life.refetch_from = NOBODY if state is None else state.leader
            return None
        return await _serve(world, life, place)
    except RecordDoubted as doubt:
        life.doubt = doubt
        return None
    except LonghallError as error:
        if not await _may_repair(life, error, coordinator, place):
            raise
        return None
    finally:
        watching.cancel()
        await coordinator.close()
        if coordinator is not root:
            await root.close()


async def _take_place(world: RealWorld, life: Life, coordinator: Coordinator) -> JoinState:
    """Join the cluster, or the wing of this process, after a full sync if the data is damaged."""
    settings = life.settings
    assert life.secret_file is not None
    return await take_place(
        world,
        coordinator,
        options_of(settings),
        settings.node_id,
        damaged=life.damaged,
        source=life.refetch_from,
        copy_bytes_a_second=settings.copy_bytes_a_second,
        level_max=settings.feature_level_max,
        patience_ms=2 * settings.session_timeout_ms,
        secrets=life.secret_file.secrets,
        founder=life.wing.hosts[0] if life.wing is not None else NOBODY,
        role=group_role(settings),
    )


async def _may_repair(life: Life, error: LonghallError, coordinator: Coordinator, place: JoinState | None) -> bool:
    """True if another life may repair the replica: by another try, or by a full sync, for which `life` is prepared."""
    if isinstance(error, ReplicaFailed) and life.repairs.failed(error) is Remedy.RESTART:
        _log.error("the state cannot be rebuilt from the disk; the node tries again", extra={"reason": str(error)})
        await asyncio.sleep(COORDINATOR_PAUSE_S)
        return True
    state = await coordinator.shard(CATALOGUE_SHARD)
    if error.code is not Code.STORAGE_DAMAGED or state is None or life.damaged:
        return False
    others = place is not None and any(node != place.node for node in state.in_sync)
    if state.leader == NOBODY and not others:
        return False
    _log.error("the data is damaged; a full sync from the leader follows", extra={"reason": str(error)})
    life.damaged = True
    life.refetch_from = state.leader
    return True


async def _wait_for_record(world: RealWorld, life: Life, coordinator: Coordinator, doubt: RecordDoubted) -> None:
    """Halt until the coordinator has a record that this node can accept; another life follows."""
    settings = life.settings
    member_file = read_member_file(world.disk, world.entropy)
    identity = read_identity(world.disk, settings.feature_level_max)
    assert identity is not None, "only a directory that has joined a cluster can doubt its record"
    report = copy_report(world, options_of(settings), identity, member_file, str(doubt))
    if not life.announced:
        tell(f"node {member_file.node} takes no part: {doubt}", logging.WARNING)
    ended = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, ended.set)
    known = Known(settings.credentials, settings.keys)
    # The users are in the log, which is not read here: only a file of credentials lets others in.
    logins = NodeAuthentication(world, settings, Directory(), bytes.fromhex(identity.secret), known.credentials)
    secrets = life.secret_file.secrets if life.secret_file is not None else None
    waiting = RecordWait(world, coordinator, identity, member_file, report, doubt, secrets)
    work = asyncio.ensure_future(
        waiting.run(
            parse_address(settings.peers),
            parse_address(settings.http),
            settings.rack,
            logins.door("http", settings.http),
            closed_api(settings, settings.http),
            life.tls.network_of("http") if life.tls is not None else world.network,
        )
    )
    await _first(work, asyncio.ensure_future(ended.wait()))
    if not work.done():
        life.ended = True
        work.cancel()
    await asyncio.gather(work, return_exceptions=True)
    if not work.cancelled():
        work.result()


async def _serve_as_worker(world: RealWorld, life: Life, orders: Orders) -> int | None:
    coordinator = worker_coordinator(world.network, orders.keeper_port, bytes.fromhex(orders.token))
    # Until there is something to stop cleanly, this process ends at once when its parent ends.
    watch_parent(asyncio.get_running_loop(), partial(os._exit, OK))
    await coordinator.start()
    try:
        colleagues = Workers(coordinator, orders)
        await colleagues.meet()
        return await _serve(world, life, None, colleagues)
    finally:
        await coordinator.close()


async def _serve(
    world: RealWorld, life: Life, place: JoinState | None, colleagues: Workers | None = None
) -> int | None:
    settings = life.settings
    loop = asyncio.get_running_loop()
    ended: asyncio.Future[OSError | None] = loop.create_future()

    def end(error: OSError | None = None) -> None:
        if not ended.done():
            ended.set_result(error)

    loop.add_signal_handler(signal.SIGTERM, end)
    if colleagues is None and life.wing is None:
        loop.add_signal_handler(signal.SIGINT, end)
    else:
        watch_parent(loop, end)
    node = Node(world, settings, place, colleagues, life.tls)
    if reads_files_again(settings):
        loop.add_signal_handler(signal.SIGHUP, partial(_reload, node, life))
    loop.set_exception_handler(ExceptionHandler(node.hall.halt))
    await node.start(end)
    agent = AgentCheck(node.status.agent_line)
    if settings.agent_check is not None:
        await agent.open(world.network, settings.agent_check)
    try:
        return await _serve_until(life, node, ended, agent)
    finally:
        agent.close()


async def _serve_until(life: Life, node: Node, ended: asyncio.Future[OSError | None], agent: AgentCheck) -> int | None:
    """Serve until the node ends or has to start anew; see `_live`."""
    settings = life.settings
    minding = _mind(life, node)
    gc.collect()
    gc.freeze()  # Objects made at the start live until the end: the collector need not visit them.
    give_back_memory()
    gc.set_threshold(GC_YOUNG_OBJECTS, 20, 20)
    if not await _settled(node, ended):
        minding.cancel()
        await _begin_anew(life, node, agent)
        return None
    watchdog = Watchdog(settings.hang_ms_max)
    if settings.watchdog and node.cluster_node is not None:
        watchdog.start()
    await make_first_administrator(node)
    if not life.announced:
        if life.orders is None and life.wing is None:
            announce(settings, addresses_of(node, agent))
        life.announced = True
        life.on_first_ready()
    if node.cluster_node is not None:
        await _first(ended, node.cluster_node.fallen)
        watchdog.stop()
        if not ended.done():
            minding.cancel()
            await _begin_anew(life, node, agent)
            return None
    failure = await ended
    if settings.ready_file:
        remove(settings.ready_file)
    if failure is not None:
        return _failed(failure)
    node.status.begin_drain()
    await asyncio.sleep(settings.drain_delay_ms / 1000)
    minding.cancel()
    await asyncio.gather(life.group_supervisor.stop(settings.drain_ms / 1000), node.stop())
    return OK


def _failed(failure: OSError) -> int:
    """Print why the node stops; returns the exit code."""
    if failure.errno == errno.ENOTRECOVERABLE:
        tell(
            f"an internal error stopped the node ({failure.strerror}); what was acknowledged is safe. "
            "Start again: recovery rebuilds everything from the log. Please report what the log says",
            logging.ERROR,
        )
        return STATE_FAILED
    if failure.errno == errno.ENOENT:
        tell(f"{failure.strerror}; put it back, or choose another with --data", logging.ERROR)
        return DISK_FAILED
    tell(
        f"the disk failed ({failure.strerror or failure}); what was acknowledged is safe. "
        "Look at the disk, then start again: recovery finds what is there",
        logging.ERROR,
    )
    return DISK_FAILED


def _mind(life: Life, node: Node) -> asyncio.Task[None]:
    """Start and stop the wing processes of this host, as long as this life lasts."""
    group_supervisor, cluster_node = life.group_supervisor, node.cluster_node
    if cluster_node is not None and cluster_node.group_directory is not None:
        place, settings = cluster_node.place, life.settings
        group_supervisor.settings_for = lambda wing: group_process.settings_of(settings, wing, place.node, place.level)
        cluster_node.group_directory.on_wings = group_supervisor.want
        cluster_node.group_directory.start()
    return node.hall.background.start("mind wings", group_supervisor.mind)


def reads_files_again(settings: Settings) -> bool:
    """True if a setting names a file that SIGHUP makes the node read again."""
    tls = settings.tls
    files = (settings.credentials, settings.keys, settings.cluster_secret, tls.certificate, tls.peers_ca)
    return any(file is not None for file in files)


def _reload(node: Node, life: Life) -> None:
    node.known.reload()
    node.authentication.check_connections()
    node.tls.reload()
    if life.secret_file is not None:
        life.secret_file.reload()
    life.group_supervisor.tell(signal.SIGHUP)


async def _settled(node: Node, ended: asyncio.Future[OSError | None]) -> bool:
    """Wait until clients can be served or the node stops. False if another life must follow."""
    cluster_node = node.cluster_node
    if cluster_node is None:
        return True
    settling = asyncio.ensure_future(cluster_node.settled())
    await _first(settling, ended, cluster_node.fallen)
    settling.cancel()
    return ended.done() or not cluster_node.fallen.done()


async def _first(*events: asyncio.Future[Any]) -> None:
    await asyncio.wait(events, return_when=asyncio.FIRST_COMPLETED)


async def _begin_anew(life: Life, node: Node, agent: AgentCheck) -> None:
    cluster_node = node.cluster_node
    assert cluster_node is not None
    life.keep_addresses(node, agent)
    life.refetch_from = cluster_node.refetch_from
    life.damaged = cluster_node.damaged
    life.doubt = cluster_node.doubt
    await node.drop()


def addresses_of(node: Node, agent: AgentCheck) -> dict[str, str]:
    """The addresses of its doors."""
    addresses = node.door_addresses()
    if agent.address is not None:
        addresses["agent_check"] = str(agent.address)
    if node.cluster_node is not None:
        addresses["peers"] = str(node.cluster_node.peers_at)
    return addresses


def announce(settings: Settings, addresses: dict[str, str]) -> None:
    """Print the addresses for clients: the node is ready."""
    doors = ", ".join(f"{door} {address}" for door, address in addresses.items())
    tell(f"ready; {doors}, data {settings.data}")
    if settings.ready_file:
        write_ready_file(settings.ready_file, addresses)


def write_ready_file(path: str, facts: Mapping[str, object]) -> None:
    """Write the ready file atomically: another process may wait for it."""
    beside = path + ".new"
    with open(beside, "w", encoding="utf-8") as file:
        json.dump({"pid": os.getpid(), **facts}, file)
        file.write("\n")
    os.replace(beside, path)


def remove(path: str) -> None:
    """Remove a file if it exists."""
    try:
        os.unlink(path)
    except FileNotFoundError:
        pass


def refuse(message: str) -> int:
    """Print on one line why the node does not start; returns the exit code."""
    tell(message, logging.ERROR)
    return REFUSED


def about_directory(settings: Settings, error: OSError) -> str:
    """The error message for a data directory that cannot be used, with a remedy."""
    if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOTDIR, errno.EEXIST):
        return f"cannot use {settings.data} ({error.strerror}): choose another with --data, or change its owner"
    return f"cannot use {settings.data}: {error.strerror or error}"


def about(settings: Settings, error: OSError) -> str:
    """The error message for a node that could not start, with a remedy."""
    if error.errno == errno.EADDRINUSE or "address already in use" in str(error).lower():
        # Port 0 is never taken; the system's message names the address if several are set.
        addresses = [getattr(settings, door) for door in DOORS]
        addresses += [settings.agent_check] if settings.agent_check is not None else []
        chosen = [address for address in addresses if parse_address(address).port]
        taken = [address for address in chosen if str(parse_address(address).port) in str(error)] or chosen
        flags = ", ".join("--" + door.replace("_", "-") for door in DOORS)
        return f"{' or '.join(taken)} is taken: stop its owner, or choose others with {flags}"
    if error.errno in (errno.EADDRNOTAVAIL, errno.EACCES):
        addresses = [getattr(settings, door) for door in DOORS]
        return f"cannot listen at {', '.join(addresses)} ({error.strerror}): choose others"
    if error.errno == errno.ENOSPC:
        return f"there is no space left in {settings.data}: free some, or choose another directory with --data"
    if error.errno == errno.EIO:
        return f"the disk of {settings.data} does not answer ({error}): look at the disk, then start again"
    return str(error)

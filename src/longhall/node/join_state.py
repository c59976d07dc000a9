"""Joining a cluster, before the hall is recovered: the coordinator session, the node number and the hall id."""

from __future__ import annotations

import logging
from typing import Final, final

import msgspec

from longhall.broker.feature_gates import NEWEST
from longhall.broker.options import HallOptions
from longhall.broker.recovery import Identity, identify, read_identity, write_identity
from longhall.cluster.membership.copy_report import CopyReport, ask_report
from longhall.cluster.membership.join import (
    check_level,
    check_storage_node,
    is_older_copy,
    join_as_front_end,
    number_of,
    retract_roles,
    share_identity,
    wait_for_founder,
    wait_for_number,
)
from longhall.cluster.membership.member_file import MemberFile, read_member_file, write_member_file
from longhall.cluster.membership.receipt_secret import learn_secret
from longhall.cluster.replication.full_sync import BYTES_A_SECOND, finish_switch, full_sync, set_copy_aside
from longhall.cluster.replication.repair_policy import RepairPolicy
from longhall.cluster.rpc.addresses import addresses_of
from longhall.cluster.rpc.authentication import Secrets
from longhall.cluster.rpc.peers import Peers
from longhall.coordination.ports import FRONT, STORAGE, Coordinator, ReplicationGroup, ShardState
from longhall.errors import Code, LonghallError
from longhall.log.layout import IDENTITY
from longhall.names import CATALOGUE_SHARD
from longhall.world.ports import World

PROPOSED: Final = f"{IDENTITY}.proposed"  # The identity proposed for the first record; survives a crash.
PATIENCE_MS: Final = 120_000  # For the session of an earlier node of this number; the longest session is half of it.

_log = logging.getLogger("longhall.node")


class RecordDoubted(LonghallError):
    """The coordinator's record contradicts the log of this node, which is halted until that is resolved."""

    def __init__(self, reason: str, *, epoch: int = 0) -> None:
        super().__init__(Code.NOT_READY, reason)
        self.epoch = epoch  # A record must have a greater epoch to be accepted.


@final
class JoinState:
    """The result of joining: coordinator, identity, member file, record and feature level of this node.

    `identity` is that of the data directory, which may have been a lone node's before.
    """

    def __init__(
        self,
        coordinator: Coordinator,
        member_file: MemberFile,
        identity: Identity,
        state: ShardState,
        level: int,
        level_max: int,
    ) -> None:
        self.coordinator = coordinator
        self.member_file = member_file
        self.identity = identity
        self.state = state
        self.level = level  # The feature level of the cluster,
        self.level_max = level_max  # and the newest that this node knows.
        self.secrets = Secrets()  # With which processes of the cluster authenticate.
        self.root = coordinator  # The coordinator of the cluster; that of a wing is a part of it.
        self.wing: ReplicationGroup | None = None  # The wing that this node belongs to; None for the main hall.
        self.repairs = RepairPolicy()  # The earlier failures of the replica in this process.
        self.fetched = False  # A full sync has just replaced the data directory, or a damaged copy was set aside.
        self.unclean = False  # The node crashed and is still in sync: the others stopped at the same time.

    @property
    def node(self) -> int:
        """The number of this node."""
        return self.member_file.node

    def raise_level(self, world: World, level: int) -> None:
        """Store in the data directory that it may have formats of this feature level. Blocks on the disk."""
        self.level = level
        self.identity = msgspec.structs.replace(self.identity, format=max(self.identity.format, level))
        if self.identity.member:  # Otherwise it is written when the directory joins a cluster.
            write_identity(world.disk, self.identity)

    def leave_cleanly(self, world: World) -> None:
        """Record a clean stop: everything is on the disk."""
        self.member_file.clean = True
        write_member_file(world.disk, self.member_file)


async def take_place(
    world: World,
    coordinator: Coordinator,
    options: HallOptions,
    wished: int,
    *,
    damaged: bool = False,
    source: int = 0,
    copy_bytes_a_second: int = BYTES_A_SECOND,
    level_max: int = NEWEST,
    patience_ms: int = PATIENCE_MS,
    secrets: Secrets | None = None,
    founder: int = 0,
    role: str = "",
) -> JoinState:
    """Join the cluster through the coordinator. CoordinationError or LonghallError if that is not possible.

    With a `source`, a full sync from that node follows; `fetched` of the result is False if it failed. A `damaged` copy
    of a node that is no replica is set aside instead, which also counts as `fetched`. The call waits
    up to `patience_ms` for the session of a node that has this number and another directory, and a while for the
    `founder` of a group that has no record yet. A front end is marked as drained; the role is empty for a node that
    does everything, and for the process of a wing.
    """
    await check_level(coordinator, level_max)
    disk = world.disk
    finish_switch(disk)
    member_file = read_member_file(disk, world.entropy)
    own = read_identity(disk, level_max)
    if own is None:
        await wait_for_founder(coordinator, founder, wished)
    if own is not None and own.member:
        await check_record(coordinator, member_file)
    member_file.node = await number_of(coordinator, member_file, wished)
    if role == FRONT:
        if own is not None and member_file.role != FRONT:
            raise LonghallError(
                Code.INVALID_CONFIGURATION,
                "the data directory is that of a node that stores messages, and a front end keeps none: choose an "
                "empty one with --data",
            )
        await join_as_front_end(coordinator, member_file.node)
    elif role == STORAGE:
        await check_storage_node(coordinator, member_file.node)
    member_file.role = role
    probe = Peers(world, own.hall_id if own is not None else "", member_file.node, member_file.life, secrets=secrets)
    try:
        place = await _settle(
            world, coordinator, options, member_file, own, probe, damaged, level_max, patience_ms, secrets
        )
        if damaged and member_file.node not in place.state.replicas:
            # The members do not know this node until it has joined, so nobody would give it a copy.
            _log.warning("a damaged copy is set aside: this node is no replica any more")
            set_copy_aside(disk)
            place.fetched = True
        elif source and source != member_file.node:
            place.fetched = await _fetch(world, place, source, copy_bytes_a_second)
        return place
    finally:
        await probe.close()


async def check_record(coordinator: Coordinator, member_file: MemberFile) -> None:
    """RecordDoubted if the coordinator has no record of the cluster, or an older one than this node has seen."""
    state = await coordinator.shard(CATALOGUE_SHARD)
    if state is None:
        raise RecordDoubted("the coordinator has lost the record of the cluster")
    if state.revision < member_file.revision:
        raise RecordDoubted("the coordinator has an older record of the cluster than this node has seen")


async def _settle(
    world: World,
    coordinator: Coordinator,
    options: HallOptions,
    member_file: MemberFile,
    own: Identity | None,
    probe: Peers,
    damaged: bool,
    level_max: int,
    patience_ms: int,
    secrets: Secrets | None,
) -> JoinState:
    disk = world.disk

    async def ask(node: int) -> CopyReport | None:
        members = await coordinator.members()
        probe.addresses = addresses_of({number: one.addresses.get("peer", "") for number, one in members.items()})
        return await ask_report(probe, node)

    await wait_for_number(coordinator, member_file.node, member_file.directory, patience_ms, ask)
    clean, member_file.clean = member_file.clean, False
    member_file.life += 1
    write_member_file(disk, member_file)
    older = await is_older_copy(coordinator, member_file)
    proposed = own or read_identity(disk, level_max, PROPOSED) or _new_identity(world, options)
    first_level = own.format if own is not None and own.member else level_max

    def keep(first: Identity) -> None:
        if own is None:
            write_identity(disk, first, PROPOSED)

    shared = await share_identity(coordinator, member_file.node, proposed, first_level, keep)
    level = await check_level(coordinator, level_max)
    if not shared.secret:
        peers = _peers(world, shared.hall_id, member_file, level, level_max, secrets)
        try:
            secret = await learn_secret(coordinator, peers, _of(shared, proposed), keep)
        finally:
            await peers.close()
        shared = msgspec.structs.replace(shared, secret=secret)
    shared = msgspec.structs.replace(shared, format=level)
    identity = identify(disk, world.entropy, options, shared, level_max)
    if identity.secret != shared.secret:  # Another node was first to store its secret.
        identity = msgspec.structs.replace(identity, secret=shared.secret)
        write_identity(disk, identity)
    if disk.exists(PROPOSED):
        disk.remove(PROPOSED)
    lost = "is empty" if own is None or damaged else "is an older copy of itself" if older else ""
    state = await retract_roles(coordinator, member_file.node, clean=clean, lost=lost, ask=ask)
    place = JoinState(coordinator, member_file, identity, state, level, level_max)
    place.secrets = secrets or place.secrets
    place.unclean = not clean and member_file.node in state.in_sync and len(state.in_sync) > 1
    if identity.format < level:
        place.raise_level(world, level)
    return place


async def _fetch(world: World, place: JoinState, source: int, copy_bytes_a_second: int) -> bool:
    """Run a full sync. Only for a directory that cannot be read, so there is no log to compare with the source."""
    members = await place.coordinator.members()
    peers = _peers(world, place.identity.hall_id, place.member_file, place.level, place.level_max, place.secrets)
    peers.addresses = addresses_of({number: one.addresses.get("peer", "") for number, one in members.items()})
    try:
        await full_sync(world, peers, source, copy_bytes_a_second)
    except (OSError, TimeoutError, LonghallError) as error:
        _log.warning("the full sync failed and will be retried", extra={"from": source, "reason": str(error)})
        return False
    finally:
        await peers.close()
    return True


def _peers(
    world: World, hall_id: str, member_file: MemberFile, level: int, level_max: int, secrets: Secrets | None
) -> Peers:
    """Connections to other nodes, for use before this node has joined."""
    peers = Peers(world, hall_id, member_file.node, member_file.life, secrets=secrets)
    peers.level, peers.level_max = level, level_max
    return peers


def _new_identity(world: World, options: HallOptions) -> Identity:
    entropy = world.entropy
    return Identity(hall_id=entropy.bytes(16).hex(), shards=options.shards, secret=entropy.bytes(32).hex(), member=True)


def _of(shared: Identity, proposed: Identity) -> Identity:
    """The proposed identity with the id and the shards of the hall that it joins."""
    return msgspec.structs.replace(proposed, hall_id=shared.hall_id, shards=shared.shards)


def as_member(identity: Identity) -> Identity:
    """The identity of the same directory as a member of a cluster."""
    return msgspec.structs.replace(identity, member=True)

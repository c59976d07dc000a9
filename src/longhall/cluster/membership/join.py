"""The join of a node: what it agrees on with the coordinator before it recovers its hall.

number      given by the settings, found in the directory, or taken from the coordinator, once; a process that had it
            before on another directory must be gone, which a killed one is when its session has ended
hall        the id and the number of shards, which the first node has brought; see `receipt_secret` for its secret
level       the feature level of the cluster, which a node must know; the first node brings its own
life        the coordinator has the count of starts of each node: a directory with a lower one is an older copy
front end   a node that never has a replica: it cannot be the first node, and is marked as drained before it registers
storage     a node that has replicas of wings, and never one of the hall: it cannot be the first node either
rejoin      a node that starts does not lead; one that was not stopped cleanly is not in sync either, unless no other
            replica in sync answers: then its log, which was synced before each acknowledgement, is the best there is
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Final

import msgspec

from longhall.broker.feature_gates import OLDEST, ROLES_LEVEL
from longhall.broker.recovery import Identity
from longhall.cluster.membership.copy_report import FOLLOWER, LEADER, CopyReport
from longhall.cluster.membership.feature_level import level_of
from longhall.cluster.membership.member_file import MemberFile
from longhall.cluster.membership.receipt_secret import from_record, on_record
from longhall.coordination.ports import (
    ABSENT,
    FRONT,
    NOBODY,
    STORAGE,
    Conflict,
    CoordinationError,
    Coordinator,
    Ids,
    NodeLife,
    OutcomeUnknown,
    ShardState,
)
from longhall.errors import Code, LonghallError
from longhall.names import CATALOGUE_SHARD

SHARDS = "shards"
TRIES_MAX = 32
FOUNDER_LOOKS: Final = 100  # How often a node looks for the leader of a new group before it takes its place.
LOOK_S: Final = 0.1  # How often a node checks whether the process before it is gone.

_log = logging.getLogger("longhall.join")


async def number_of(coordinator: Coordinator, member_file: MemberFile, requested: int) -> int:
    """The permanent number of the node."""
    if member_file.node and requested and member_file.node != requested:
        raise LonghallError(
            Code.INVALID_CONFIGURATION,
            f"the data directory belongs to node {member_file.node}, not to node {requested}: choose another with "
            "--data",
        )
    if member_file.node or requested:
        return member_file.node or requested
    return (await coordinator.take_ids(Ids.NODES, 1, first_min=1)).start


async def wait_for_founder(coordinator: Coordinator, founder: int, node: int) -> None:
    """Wait a while until the preferred leader of a new group has begun to lead it. Otherwise whichever node is first
    leads, and transfers its leadership soon after the group has clients.
    """
    for _ in range(FOUNDER_LOOKS if founder not in (NOBODY, node) else 0):
        state = await coordinator.shard(CATALOGUE_SHARD)
        if state is not None and state.leader != NOBODY:
            return
        await asyncio.sleep(LOOK_S)


async def join_as_front_end(coordinator: Coordinator, node: int) -> None:
    """Mark a node as drained before it registers, so that no controller of any version gives it a replica.

    LonghallError if the node has a replica, or if there is no cluster yet: a front end cannot be its first replica.
    """
    state = await _state_of_hall(coordinator, FRONT)
    if node in state.replicas:
        raise LonghallError(
            Code.INVALID_CONFIGURATION,
            f"node {node} has a copy of the messages, and a front end keeps none: run `longhall cluster drain {node}` "
            "first, and choose an empty directory with --data",
        )
    await coordinator.mark_drain(node)


async def check_storage_node(coordinator: Coordinator, node: int) -> None:
    """LonghallError if a node cannot be a storage node: it has a replica of the hall, there is no hall yet, or the
    controller may be of a version that would give it a replica.
    """
    state = await _state_of_hall(coordinator, STORAGE)
    level = level_of((await coordinator.feature_level()).level)
    if level < ROLES_LEVEL:
        raise LonghallError(
            Code.UNSUPPORTED_VERSION,
            f"storage nodes need feature level {ROLES_LEVEL}, and the cluster is at {level}: raise it with "
            "`longhall cluster upgrade`",
        )
    if node in state.replicas:
        raise LonghallError(
            Code.INVALID_CONFIGURATION,
            f"node {node} has a copy of the hall, and a storage node keeps wings alone: run `longhall cluster drain "
            f"{node}` first, and `longhall cluster add {node}` when it runs with --role storage",
        )


async def _state_of_hall(coordinator: Coordinator, role: str) -> ShardState:
    """The record of the hall; LonghallError if there is none for a while, because this role cannot begin a cluster."""
    for _ in range(FOUNDER_LOOKS):
        state = await coordinator.shard(CATALOGUE_SHARD)
        if state is not None:
            return state
        await asyncio.sleep(LOOK_S)
    said = f"the cluster has no node that stores the hall yet: start one without --role {role} first"
    raise LonghallError(Code.INVALID_CONFIGURATION, said)


async def wait_for_number(coordinator: Coordinator, node: int, directory: str, patience_ms: int, ask: Ask) -> None:
    """Wait until no process with this number is registered on another directory. A killed one stays registered until
    its session ends.

    This comes before any change of the record in the name of the node, so that a live one is not deposed by another
    process. LonghallError if it is still there after `patience_ms`.
    """
    loop = asyncio.get_running_loop()
    until_s = loop.time() + patience_ms / 1000
    is_waiting = False
    while (other := (await coordinator.members()).get(node)) is not None:
        if other.directory == directory:
            await _refuse_copy(node, other.addresses.get("peer", ""), ask)
            return
        if loop.time() >= until_s:
            raise LonghallError(
                Code.INVALID_CONFIGURATION,
                f"node {node} lives, on another data directory ({other.directory}): stop it, or choose another number "
                "with --node-id",
            )
        if not is_waiting:
            details = {"node": node, "at_most_ms": patience_ms}
            _log.info("waiting for the session of the node that had this number to end", extra=details)
            is_waiting = True
        await asyncio.sleep(LOOK_S)


async def _refuse_copy(node: int, address: str, ask: Ask) -> None:
    """A process that answers under this number and directory id runs on the original: this directory is a copy."""
    if await ask(node) is not None:
        raise LonghallError(
            Code.INVALID_CONFIGURATION,
            f"node {node} lives at {address}, and this data directory is a copy of its own: remove it, or start "
            "with an empty directory and another --node-id",
        )


async def is_older_copy(coordinator: Coordinator, member_file: MemberFile) -> bool:
    """Record this start of the node. True if a later one of the directory is known: it was rolled back or copied."""
    known = await coordinator.note_life(
        member_file.node, NodeLife(directory=member_file.directory, life=member_file.life)
    )
    return known is not None and known.directory == member_file.directory and known.life >= member_file.life


async def check_level(coordinator: Coordinator, level_max: int) -> int:
    """The feature level of the cluster; OLDEST while there is none. LonghallError if this version does not know it."""
    level = level_of((await coordinator.feature_level()).level)
    if level > level_max:
        raise LonghallError(
            Code.UNSUPPORTED_VERSION,
            f"the cluster is at feature level {level}, and this version knows up to {level_max}: "
            "start the newer version on this node",
        )
    return level


def _is_saved(identity: Identity) -> None:
    """The directory has an identity already."""


async def share_identity(
    coordinator: Coordinator,
    node: int,
    own: Identity,
    level: int = OLDEST,
    save: Callable[[Identity], None] = _is_saved,
) -> Identity:
    """The identity of the cluster's hall: `own`, if there is none yet, and then at this level.

    `save` writes `own` to the directory before the record has it. The secret is empty if the record has only its digest
    and `own` has another one.
    """
    hall_id = await coordinator.cluster_id(own.hall_id)
    for _ in range(TRIES_MAX):
        state = await coordinator.shard(CATALOGUE_SHARD)
        if state is not None:
            secret, shards = from_record(state.more, own.secret), state.more.get(SHARDS)
            if secret is None or not isinstance(shards, int):
                raise LonghallError(Code.UNSUPPORTED_VERSION, "the coordinator keeps something else under this path")
            return Identity(hall_id=hall_id, shards=shards, secret=secret, member=True)
        if hall_id != own.hall_id:
            # Another node proposed first and did not go on: its secret is lost with it, and this one serves as well.
            own = msgspec.structs.replace(own, hall_id=hall_id)
        try:
            record = await coordinator.feature_level()
            if level > OLDEST and record.version == ABSENT:
                record = await coordinator.change_feature_level(record, level)
            more = {SHARDS: own.shards, **on_record(own.secret, level_of(record.level))}
            first = ShardState(shard=CATALOGUE_SHARD, replicas=(node,), in_sync=(node,), more=more)
            save(own)
            await coordinator.change_shard(None, first)
        except (Conflict, OutcomeUnknown):
            continue
    raise LonghallError(Code.NOT_READY, "other nodes keep changing the record; try again")


Ask = Callable[[int], Awaitable[CopyReport | None]]  # The report of a node; None if it does not answer.


async def retract_roles(coordinator: Coordinator, node: int, *, clean: bool, lost: str, ask: Ask) -> ShardState:
    """Remove this node from the record as leader and, after an unclean stop, from the in-sync set, as its last run left
    it; returns the record after that.

    `lost` says why the directory lacks entries that the node had: it is empty, or an older copy. Other nodes are asked
    whether they are alive, because sessions outlive their nodes.
    """
    state = await _record(coordinator)
    others = [one for one in state.in_sync if one != node]
    leaves = bool(lost) and state.epoch > 0
    if node in state.in_sync and not clean and not lost:
        leaves = await _is_another_in_service(others, ask)
    for _ in range(TRIES_MAX):
        in_sync = tuple(one for one in state.in_sync if one != node) if leaves else state.in_sync
        if not in_sync:
            raise LonghallError(
                Code.STORAGE_DAMAGED,
                f"node {node} alone has everything that was acknowledged, and this data directory {lost}: restore its "
                "directory, or start under another number",
            )
        leader = NOBODY if state.leader == node else state.leader
        if (leader, in_sync) == (state.leader, state.in_sync):
            return state
        try:
            return await coordinator.change_shard(state, msgspec.structs.replace(state, leader=leader, in_sync=in_sync))
        except (Conflict, OutcomeUnknown):
            state = await _record(coordinator)
    raise CoordinationError("other nodes keep changing the record")


async def _record(coordinator: Coordinator) -> ShardState:
    state = await coordinator.shard(CATALOGUE_SHARD)
    if state is None:
        raise CoordinationError("the coordinator has lost the record of the cluster")
    return state


async def _is_another_in_service(others: list[int], ask: Ask) -> bool:
    """True if another node in sync answers that it leads or follows: it has everything, so this one may leave the set
    and catch up. If all of them went down together, no copy is better than this one, and it stays.
    """
    reports = await asyncio.gather(*(ask(other) for other in others))
    return any(one is not None and one.role in (LEADER, FOLLOWER) for one in reports)


async def adopt_epoch(coordinator: Coordinator, node: int, epoch: int) -> ShardState:
    """The directory of a single node becomes the first replica of a cluster, whose epochs go on from the node's."""
    while (state := await _record(coordinator)).epoch < epoch:
        if (state.leader, state.in_sync) != (NOBODY, (node,)):
            raise LonghallError(Code.INVALID_CONFIGURATION, "the cluster has a log already: choose another directory")
        try:
            return await coordinator.change_shard(state, msgspec.structs.replace(state, epoch=epoch))
        except (Conflict, OutcomeUnknown):
            continue
    return state

"""Leadership transfer: a live leader gives its leadership to another replica, so that clients wait only for a moment.

    stop        no more messages are taken; requests wait at the doors, or are asked to retry
    wait        until the successor has synced everything that was taken, and its senders have their acknowledgements
    record      the successor leads under a new epoch, by compare-and-set; this node leaves the in-sync set in the same
                change, because it is about to restart, unless too few would be left in the set

If a step fails, the leader goes on as before. That is safe even if the record has changed meanwhile: then no follower
confirms anything to it any more.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Container
from typing import Final

import msgspec

from longhall.cluster.replication.group_replica import GroupReplica
from longhall.coordination.ports import NOBODY, Conflict, CoordinationError, Coordinator, ShardState
from longhall.errors import Code, LonghallError
from longhall.names import CATALOGUE_SHARD

PATIENCE_S: Final = 5.0  # For the successor to have everything.
LOOK_S: Final = 0.005
TRIES_MAX: Final = 8

_log = logging.getLogger("longhall.transfer")


async def transfer_leadership(
    coordinator: Coordinator, group_replica: GroupReplica, state: ShardState, successor: int, in_sync_min: int
) -> ShardState:
    """Make the successor the leader; returns the record that names it. LonghallError(NOT_READY) if that fails, and then
    the replica takes messages again. Clients may not be served meanwhile.
    """
    _log.info("the leadership is transferred", extra={"to": successor, "epoch": state.epoch})
    try:
        group_replica.set_transferring(True)
        await wait_for_successor(group_replica, successor)
        after = await _record(coordinator, group_replica.node, state, successor, in_sync_min)
    except (CoordinationError, LonghallError) as error:
        group_replica.set_transferring(False)
        _log.warning("the leadership could not be transferred", extra={"to": successor, "reason": str(error)})
        if isinstance(error, LonghallError):
            raise
        raise LonghallError(Code.NOT_READY, f"the coordinator did not answer: {error}") from None
    _log.info("the leadership was transferred", extra={"to": successor, "epoch": after.epoch, "in_sync": after.in_sync})
    return after


async def wait_for_successor(group_replica: GroupReplica, successor: int, *, committed: bool = True) -> None:
    """Wait until the successor has synced everything and, if `committed`, until all of it is committed.
    LonghallError(NOT_READY) if that takes too long.
    """
    index = group_replica.index
    for _ in range(int(PATIENCE_S / LOOK_S)):
        leading = group_replica.leading
        if leading is None or successor not in leading.in_sync:
            raise LonghallError(Code.NOT_READY, f"node {successor} is not in sync; try again")
        if leading.followers[successor].synced >= index and (not committed or group_replica.replica.committed >= index):
            return
        await asyncio.sleep(LOOK_S)
    raise LonghallError(Code.NOT_READY, f"node {successor} does not have everything; try again")


async def _record(
    coordinator: Coordinator, node: int, state: ShardState, successor: int, in_sync_min: int
) -> ShardState:
    epoch = state.epoch
    for _ in range(TRIES_MAX):
        found = await coordinator.shard(CATALOGUE_SHARD)
        if found is None or (found.leader, found.epoch) != (node, epoch):
            if found is not None and found.leader == successor and found.epoch > epoch:
                return found  # The answer to an earlier attempt was lost.
            raise LonghallError(Code.NOT_LEADER, "another node leads the hall by now")
        if successor not in found.in_sync or successor not in found.replicas:
            raise LonghallError(Code.NOT_READY, f"node {successor} is not in sync; try again")
        others = tuple(one for one in found.in_sync if one != node)
        after = msgspec.structs.replace(
            found,
            leader=successor,
            epoch=await coordinator.next_epoch(above=found.epoch),
            in_sync=others if len(others) >= in_sync_min else found.in_sync,
        )
        try:
            return await coordinator.change_shard(found, after)
        except Conflict:
            continue
        except CoordinationError:
            continue  # It may have been done: read back.
    raise LonghallError(Code.NOT_READY, "other nodes keep changing the record; try again")


async def withdraw(
    coordinator: Coordinator,
    node: int,
    state: ShardState,
    living: Container[int],
    read: Callable[[], Awaitable[ShardState]],
) -> None:
    """A node stops: remove it from the record as far as that is safe. A leader stays in sync: it has everything."""
    for _ in range(TRIES_MAX):
        leads = state.leader == node
        others = [one for one in state.in_sync if one != node and one in living]
        in_sync = state.in_sync if leads or not others else tuple(one for one in state.in_sync if one != node)
        after = msgspec.structs.replace(state, leader=NOBODY if leads else state.leader, in_sync=in_sync)
        if (after.leader, after.in_sync) == (state.leader, state.in_sync):
            return
        try:
            await coordinator.change_shard(state, after)
            return
        except Conflict:
            state = await read()
        except CoordinationError:
            break
    _log.info("this node could not withdraw; the others notice when its session ends")

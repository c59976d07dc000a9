"""The registrar of a replica: what a leader has the coordinator record, by compare-and-set.

A change whose answer is lost may have been made. The record is then read back, and unless it shows the change the
leader is told that the outcome is unknown.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import final

import msgspec

from longhall.broker.leadership import NOBODY
from longhall.cluster.membership.metadata import ClusterMetadata, is_stale
from longhall.cluster.membership.session_tasks import SessionTasks
from longhall.cluster.replication.roles import GroupRecord
from longhall.coordination.ports import Conflict, CoordinationError, Coordinator, Expired, ShardState
from longhall.names import CATALOGUE_SHARD

_log = logging.getLogger("longhall.session")


@final
class RecordRegistrar:
    """Fulfils `cluster.replication.roles.Registrar` for one node. `accept` gets each record that it reads or writes."""

    def __init__(
        self,
        metadata: ClusterMetadata,
        coordinator: Coordinator,
        tasks: SessionTasks,
        accept: Callable[[ShardState], None],
    ) -> None:
        self._metadata = metadata
        self._coordinator = coordinator
        self._tasks = tasks
        self._accept = accept
        self._check: asyncio.Future[None] | None = None

    async def read(self) -> ShardState:
        """The record. CoordinationError if there is none, or an older one than this node has seen: the controller
        rebuilds it.
        """
        state = await self._coordinator.shard(CATALOGUE_SHARD)
        if state is None:
            raise CoordinationError("the coordinator has lost the record of the cluster")
        if is_stale(state, self._metadata.state):
            raise CoordinationError("the coordinator has an older record of the cluster than this node has seen")
        return state

    async def record_in_sync(self, epoch: int, version: int, in_sync: frozenset[int]) -> GroupRecord | None:
        """Make this the in-sync set, if the record has this epoch, this leader and this version."""
        state = self._metadata.state
        try:
            if state.revision < version:
                state = await self.read()
            if (state.epoch, state.leader) != (epoch, self._metadata.node):
                return None
            if state.revision != version:
                return group_record(state)
            after = msgspec.structs.replace(state, in_sync=tuple(sorted(in_sync)))
            self._accept(await self._coordinator.change_shard(state, after))
        except Conflict:
            return await self._read_again(epoch)
        except Expired:
            raise ConnectionError("the session is over; another one begins") from None
        except CoordinationError:
            return await self._read_back(epoch, in_sync)
        return group_record(self._metadata.state)

    async def _read_again(self, epoch: int) -> GroupRecord | None:
        try:
            self._accept(await self.read())
        except CoordinationError as error:
            raise ConnectionError(f"the coordinator does not answer: {error}") from None
        state = self._metadata.state
        return group_record(state) if (state.epoch, state.leader) == (epoch, self._metadata.node) else None

    async def _read_back(self, epoch: int, in_sync: frozenset[int]) -> GroupRecord | None:
        """The outcome of the change is unknown: unless the record shows it, the leader has to reckon with both sets."""
        found = await self._read_again(epoch)
        if found is not None and found.in_sync != in_sync:
            raise ConnectionError("the coordinator did not say whether it was done")
        return found

    def epoch_claimed(self, epoch: int) -> None:
        """Another node claims a later epoch. Only the coordinator gives epochs: the record says whether this node still
        leads.
        """
        if self._check is None or self._check.done():
            self._check = self._tasks.start(self._check_claim(epoch))

    async def _check_claim(self, epoch: int) -> None:
        _log.warning("a node claims a later epoch; the record is read", extra={"epoch": epoch})
        try:
            self._accept(await self.read())
        except CoordinationError as error:
            _log.info("the record could not be read", extra={"reason": str(error)})

    async def renounce(self, epoch: int) -> None:
        """This node leads the epoch and lacks committed entries: replicas in sync have them."""
        try:
            state = await self.read()
            node = self._metadata.node
            in_sync = tuple(one for one in state.in_sync if one != node)
            if (state.epoch, state.leader) != (epoch, node) or not in_sync:
                return
            after = msgspec.structs.replace(state, leader=NOBODY, in_sync=in_sync)
            self._accept(await self._coordinator.change_shard(state, after))
        except CoordinationError as error:
            raise ConnectionError(f"the coordinator does not answer: {error}") from None


def group_record(state: ShardState) -> GroupRecord:
    """The part of the record that a replica acts on."""
    return GroupRecord(
        version=state.revision,
        in_sync=frozenset(state.in_sync),
        replicas=frozenset(state.replicas) | {state.leader},
        unclean_epoch=state.unclean_epoch,
    )

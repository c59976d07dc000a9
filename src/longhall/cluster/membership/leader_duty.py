"""The duty of a leader towards the coordinator: it takes up the leadership, looks after its followers, and hands over.

elected         the replica becomes leader; if that fails, the node declines on record
leading         dead followers leave the in-sync set, though the controller may have died with them; the commit
                position is noted with the coordinator
drained, moved, or another leader is preferred      the leadership is transferred
asked by the controller, without a session          the node stops taking messages until a successor has them all
"""

from __future__ import annotations

import asyncio
import logging
from typing import Final, Protocol, final

import msgspec

from longhall.broker.leadership import NOBODY
from longhall.cluster.membership.liveness_probe import LivenessProbe
from longhall.cluster.membership.metadata import ClusterMetadata
from longhall.cluster.membership.reassignment import leaving_of, makes_way, successor
from longhall.cluster.membership.record_registrar import RecordRegistrar, group_record
from longhall.cluster.replication.group_replica import GroupReplica, Role
from longhall.cluster.replication.leadership_transfer import transfer_leadership, wait_for_successor
from longhall.cluster.replication.progress_notes import ProgressNotes
from longhall.coordination.ports import CoordinationError, Coordinator, ShardState
from longhall.errors import Code, LonghallError
from longhall.names import CATALOGUE_SHARD

PAUSE_S: Final = 0.2
CALM_S: Final = 10.0  # Before a leader makes way for the one that is preferred.
TRANSFER_S_MAX: Final = 10.0  # A leader that has transferred takes messages again if no other node leads by then.

_log = logging.getLogger("longhall.session")


class LeadingNode(Protocol):
    """What the duty needs of the coordinator session."""

    def take_state(self, state: ShardState) -> None:
        """This is the record now."""

    async def serve(self) -> None:
        """The replica leads: start everything that serves clients."""


@final
class LeaderDuty:
    """The duty of one replica, while it is elected. `is_serving` is True while it leads and serves clients."""

    def __init__(
        self,
        session: LeadingNode,
        metadata: ClusterMetadata,
        coordinator: Coordinator,
        registrar: RecordRegistrar,
        group_replica: GroupReplica,
        probe: LivenessProbe,
    ) -> None:
        self.is_serving = False
        self.elected_epoch = 0  # The last epoch that this node was elected for.
        self._session = session
        self._metadata = metadata
        self._coordinator = coordinator
        self._registrar = registrar
        self._replica = group_replica
        self._probe = probe
        self._progress = ProgressNotes(coordinator)
        self._is_transferring = False
        self._is_stopped = False
        self._serving_since_s = 0.0
        self._loop = asyncio.get_running_loop()

    def stop(self) -> None:
        """The session ends."""
        self.is_serving = False
        self._is_stopped = True

    async def lead(self, state: ShardState) -> None:
        """Become the leader of the record's epoch, or decline."""
        _log.info("this node is to lead", extra={"epoch": state.epoch, "in_sync": state.in_sync})
        try:
            await self._replica.become_leader(state.epoch, group_record(state))
        except LonghallError as error:
            _log.info("this node could not become leader", extra={"epoch": state.epoch, "reason": str(error)})
            await self._decline(state)
            return
        await self._session.serve()
        self.is_serving = not self._is_stopped
        self._serving_since_s = self._loop.time()
        _log.info("this node leads", extra={"epoch": state.epoch})

    async def _decline(self, state: ShardState) -> None:
        """Record that this node does not lead although it was elected, unless the record says so by now."""
        metadata = self._metadata
        while metadata.state.epoch == state.epoch and metadata.state.leader == metadata.node:
            try:
                after = msgspec.structs.replace(metadata.state, leader=NOBODY)
                self._session.take_state(await self._coordinator.change_shard(metadata.state, after))
            except CoordinationError:
                await asyncio.sleep(PAUSE_S)
                self._session.take_state(await self._registrar.read())

    async def run(self) -> None:
        """Give up dead followers, transfer the leadership if another node should lead, and note the commit position."""
        await self._look_after()
        if not self._is_stopped:
            await self._progress.write(self._replica.replica, self._metadata.level)

    async def _look_after(self) -> None:
        metadata = self._metadata
        silent = [one.node for one in self._replica.status().followers if one.in_sync and not one.connected]
        if silent:
            dead, refused = await self._probe.probe(silent)
            for node in dead:
                self._replica.give_up(node)
            if refused and not dead:
                metadata.changed.set()
                await asyncio.sleep(PAUSE_S)
        state = metadata.state
        is_leaving = metadata.node in leaving_of(state, metadata.drained) and len(state.in_sync) > metadata.in_sync_min
        preferred, fit = metadata.preferred_leader, metadata.fit
        is_calm = self._loop.time() - self._serving_since_s > CALM_S
        if is_leaving or (is_calm and makes_way(state, preferred, fit, metadata.drained, metadata.in_sync_min)):
            try:
                await self.transfer(NOBODY if is_leaving else preferred)
            except LonghallError:
                await asyncio.sleep(PAUSE_S)  # The log says why; it is tried again.

    async def transfer(self, node: int = NOBODY) -> bool:
        """Transfer the leadership to this node, or to the best one. False if this node does not lead, or if there is no
        successor; LonghallError if the transfer fails, and then this node leads on.
        """
        metadata = self._metadata
        state = metadata.state
        node = node or successor(state, metadata.fit or frozenset(metadata.living), metadata.drained)
        if not self.is_serving or self._is_transferring or node in (NOBODY, metadata.node):
            return False
        self._is_transferring = True
        self.is_serving = False  # Requests wait at the doors until a node leads.
        try:
            state = await transfer_leadership(self._coordinator, self._replica, state, node, metadata.in_sync_min)
        except BaseException:
            leads = self._replica.role_of(CATALOGUE_SHARD) is Role.LEADER
            self.is_serving = metadata.state.leader == metadata.node and leads
            raise
        finally:
            self._is_transferring = False
        self._session.take_state(state)
        return True

    async def transfer_on_request(self, node: int, successor: int) -> None:
        """The controller `node` sees that this node leads without a session: another one is to lead, with everything
        that was acknowledged here.
        """
        if not self.is_serving or self._is_transferring:
            raise LonghallError(Code.NOT_LEADER, "this node does not lead")
        _log.warning("the leadership is transferred", extra={"to": successor, "asked_by": node})
        self._replica.set_transferring(True)
        self._loop.call_later(TRANSFER_S_MAX, self._replica.set_transferring, False)
        await wait_for_successor(self._replica, successor, committed=False)

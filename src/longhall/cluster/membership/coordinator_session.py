"""A node's session with the coordinator: it hears what changes there, and has each part of the node act on it.

    heard                       done
    the live nodes              peers learn their addresses; doors tell clients
    the record                  the replica leads or follows, as the record says; the leader starts to serve
    no controller               the node campaigns for it (`controller_candidate`)
    this node is controller     `controller` looks at the cluster whenever something changed
    this node leads             `leader_duty` looks after followers and transfers the leadership
    the feature level           the node writes in it, or restarts because it does not know it
    the session is over         the node registers anew; the record says whether another node was elected meanwhile

A session lasts as long as its hall. Nothing is safe because of it: the record is changed by compare-and-set alone, and
the replica decides what a leader may acknowledge.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from typing import Final, Protocol, final

import msgspec

from longhall.broker.leadership import NOBODY, Host
from longhall.cluster.membership.candidates import VOTE, Vote, VoteRequest
from longhall.cluster.membership.controller import TRANSFER, Controller
from longhall.cluster.membership.controller_candidate import ControllerCandidate
from longhall.cluster.membership.election import REPLICAS_MAX
from longhall.cluster.membership.feature_level import LevelOutlook, raise_level
from longhall.cluster.membership.leader_duty import LeaderDuty
from longhall.cluster.membership.liveness_probe import LivenessProbe
from longhall.cluster.membership.metadata import ClusterMetadata, is_stale
from longhall.cluster.membership.record_recovery import RecordRecovery
from longhall.cluster.membership.record_registrar import RecordRegistrar, group_record
from longhall.cluster.membership.registration import Registration
from longhall.cluster.membership.session_tasks import SessionTasks
from longhall.cluster.replication.group_replica import GroupReplica, Role
from longhall.cluster.replication.leadership_suspicion import LeadershipSuspicion
from longhall.cluster.replication.leadership_transfer import withdraw
from longhall.cluster.rpc.addresses import addresses_of
from longhall.cluster.rpc.peers import Peers
from longhall.coordination.ports import (
    Conflict,
    CoordinationError,
    Coordinator,
    FeatureLevel,
    MemberDescription,
    Session,
    ShardState,
    Watch,
)
from longhall.errors import Code, LonghallError
from longhall.names import CATALOGUE_SHARD
from longhall.world.ports import Network

LOOK_S: Final = 0.25  # How often a node looks although nothing has changed.
PAUSE_S: Final = 0.2  # After the coordinator could not be reached.

_log = logging.getLogger("longhall.session")


class SessionOwner(Protocol):
    """The node that has the session."""

    async def lead(self) -> None:
        """The replica leads: start everything that serves clients."""

    def condition(self) -> str:
        """Why another node should lead instead of this one; empty if this one can."""

    def restart(self, reason: str) -> None:
        """The session cannot go on: start the hall anew."""

    def raise_level(self, level: int) -> None:
        """The cluster is at this feature level. LonghallError if the node cannot follow yet; it is called again."""

    def record_changed(self, state: ShardState) -> None:
        """This is the newest record."""


@final
class _Part:
    """What a session has from `start` to `stop`: the replica, and the parts that act for it."""

    def __init__(
        self, group_replica: GroupReplica, peers: Peers, duty: LeaderDuty, candidate: ControllerCandidate
    ) -> None:
        self.group_replica = group_replica
        self.peers = peers
        self.duty = duty
        self.candidate = candidate


@final
class CoordinatorSession:
    """Fulfils `broker.leadership.Leadership`. `registrar` is the `Registrar` for the replica."""

    def __init__(
        self,
        coordinator: Coordinator,
        node: int,
        state: ShardState,
        network: Network,
        owner: SessionOwner,
        *,
        factor: int = REPLICAS_MAX,
        in_sync_min: int = 2,
        raises_level: bool = False,
        campaigns: bool = True,
    ) -> None:
        self.metadata = ClusterMetadata(node, state, factor, in_sync_min)
        self._owner = owner
        self._coordinator = coordinator
        self._network = network
        self._raises_level = raises_level  # As controller, raise the feature level as soon as all nodes allow it.
        self._campaigns = campaigns  # This node may become controller.
        self._tasks = SessionTasks(owner.restart)
        self.registrar = RecordRegistrar(self.metadata, coordinator, self._tasks, self.take_state)
        self._suspicion = LeadershipSuspicion(in_sync_min)
        self._registration: Registration | None = None
        self._part: _Part | None = None
        self._watches: list[Watch] = []

    # Life

    async def start(
        self, group_replica: GroupReplica, peers: Peers, description: MemberDescription, recovery: RecordRecovery
    ) -> None:
        """Register the node and take part from now on. CoordinationError if that fails."""
        probe = LivenessProbe(self._network, peers)
        coordinator, metadata = self._coordinator, self.metadata
        controller = Controller(self, coordinator, peers, probe, recovery, look_again=metadata.changed.set)
        candidate = ControllerCandidate(metadata, coordinator, controller, self._raise_level)
        duty = LeaderDuty(self, metadata, coordinator, self.registrar, group_replica, probe)
        self._part = _Part(group_replica, peers, duty, candidate)
        peers.serve(VOTE, self._answer_vote)
        peers.serve(TRANSFER, self._answer_transfer)
        registration = Registration(self._owner, coordinator, description)
        await registration.register()
        self._registration = registration
        self._watches = [
            coordinator.on_session(self._session_changed),
            coordinator.watch_members(self._members_changed),
            coordinator.watch_shards(self._shards_changed),
            coordinator.watch_manager(candidate.controller_changed),
            coordinator.watch_drains(self._drains_changed),
            coordinator.watch_feature_level(self._level_changed),
        ]
        candidate.start_waiting()
        self._tasks.start(self._run())

    def stop(self) -> None:
        """Hear and do nothing any more; the registration ends with the coordinator's session."""
        if self._part is not None:
            self._part.duty.stop()
        for watch in self._watches:
            watch.cancel()
        self._tasks.cancel()
        self._part = None

    # Leadership

    @property
    def node(self) -> int:
        """The number of this node."""
        return self.metadata.node

    @property
    def serving(self) -> bool:
        """True while this node leads, and everything that a leader does is running."""
        return self._part is not None and self._part.duty.is_serving

    def leads(self, shard: int) -> bool:
        return self.serving and self._part is not None and self._part.group_replica.role_of(shard) is Role.LEADER

    def leader_node(self, shard: int) -> int:
        group_replica = self._part.group_replica if self._part is not None and self.serving else None
        is_doubtful = group_replica is not None and self._suspicion.has_reason(group_replica.status)
        return NOBODY if is_doubtful else self.metadata.state.leader

    def epoch(self, shard: int) -> int:
        return self.metadata.state.epoch

    def replicas(self, shard: int) -> list[int]:
        return list(self.metadata.state.replicas)

    def in_sync(self, shard: int) -> list[int]:
        return list(self.metadata.state.in_sync)

    def members(self) -> list[Host]:
        return self.metadata.hosts()

    @property
    def has_leader(self) -> bool:
        """True if clients can be sent to a leader: this node serving, or another one on record."""
        leader = self.metadata.state.leader
        if leader == self.node:
            return self.serving
        return leader != NOBODY and leader in self.metadata.living

    @property
    def controller(self) -> int:
        """The node that is controller, as far as is known; NOBODY for none."""
        return self._part.candidate.controller_node if self._part is not None else NOBODY

    @property
    def state(self) -> ShardState:
        """The newest record that this node has seen."""
        return self.metadata.state

    @property
    def living(self) -> Mapping[int, MemberDescription]:
        """The live nodes, as they describe themselves."""
        return self.metadata.living

    @property
    def factor(self) -> int:
        """How many replicas there should be."""
        return self.metadata.factor

    @property
    def in_sync_min(self) -> int:
        """How many of them must be in sync for messages to be taken."""
        return self.metadata.in_sync_min

    @property
    def drained(self) -> frozenset[int]:
        """Nodes that are to have no replicas."""
        return self.metadata.drained

    # The record

    def take_state(self, state: ShardState) -> None:
        """This is the record now: lead or follow as it says. An older one than this node has seen is ignored."""
        metadata = self.metadata
        if is_stale(state, metadata.state):
            return
        if state != metadata.state:  # The controller reads the same record at every look.
            metadata.changed.set()
        metadata.state, part = state, self._part
        self._owner.record_changed(state)
        if part is None or state.epoch < part.group_replica.replica.epoch:
            return  # No node leads or follows under an epoch that is older than the log.
        if state.leader != self.node:
            part.duty.is_serving = False
            # A node that is no replica follows no leader.
            leader = state.leader if self.node in state.replicas else NOBODY
            part.group_replica.become_follower(state.epoch, leader)
        elif part.group_replica.leading is None and part.duty.elected_epoch != state.epoch:
            part.duty.elected_epoch = state.epoch
            self._tasks.start(part.duty.lead(state))
        else:
            part.group_replica.recorded(state.epoch, group_record(state))

    async def serve(self) -> None:
        """The replica leads: start everything that serves clients."""
        await self._owner.lead()

    async def vote(self, epoch: int) -> Vote:
        """The epoch and index of this node's last entry, for the election of a leader behind `epoch`."""
        if epoch > self.metadata.state.epoch:
            try:
                self.take_state(await self.registrar.read())
            except CoordinationError as error:
                raise LonghallError(Code.NOT_READY, f"the record cannot be read: {error}") from None
        if self._part is None:
            raise LonghallError(Code.NOT_READY, "this node takes no part")
        if epoch > self.metadata.state.epoch:
            raise LonghallError(Code.FENCED_LEADER_EPOCH, f"the coordinator has not given the epoch {epoch}")
        known, index = self._part.group_replica.vote(epoch)
        return Vote(epoch=known, index=index)

    async def _answer_vote(self, node: int, body: bytes) -> bytes:
        """The controller asks for this node's vote. It must have deposed the leader on record first: an epoch that the
        coordinator has not given is refused.
        """
        return msgspec.msgpack.encode(await self.vote(msgspec.msgpack.decode(body, type=VoteRequest).epoch))

    async def _answer_transfer(self, node: int, body: bytes) -> bytes:
        successor = int(body)
        if self._part is None:
            raise LonghallError(Code.NOT_LEADER, "this node does not lead")
        await self._part.duty.transfer_on_request(node, successor)
        return b""

    async def transfer_leadership(self, node: int = NOBODY) -> bool:
        """Transfer the leadership to this node, or to the best one: see `LeaderDuty.transfer`."""
        return self._part is not None and await self._part.duty.transfer(node)

    async def withdraw(self) -> None:
        """The node stops: the others need not wait for it."""
        metadata = self.metadata
        await withdraw(self._coordinator, self.node, metadata.state, metadata.living, self.registrar.read)

    def set_placement(self, preferred_leader: int, factor: int) -> None:
        """Of a wing: the node that should lead it, and how many replicas it should have."""
        self.metadata.preferred_leader = preferred_leader
        self.metadata.default_factor = factor

    # What is heard

    def _session_changed(self, session: Session) -> None:
        _log.info("the session with the coordinator changed", extra={"session": session.value})
        self._suspicion.session_changed(session)
        if session is Session.EXPIRED and self._part is not None:
            self._part.candidate.session_expired()
        if session is Session.CONNECTED and self._registration is not None:
            self._tasks.start(self._registration.register_again())

    def _members_changed(self, members: Mapping[int, MemberDescription]) -> None:
        self.metadata.living = members
        assert self._part is not None
        # The last address of a node that is gone stays: it may be gone for the coordinator alone.
        known = addresses_of({number: one.addresses.get("peer", "") for number, one in members.items()})
        self._part.peers.addresses.update({number: place for number, place in known.items() if number != self.node})
        self.metadata.changed.set()

    def _drains_changed(self, drained: frozenset[int]) -> None:
        self.metadata.drained = drained
        self.metadata.changed.set()

    def _shards_changed(self, states: Mapping[int, ShardState]) -> None:
        state = states.get(CATALOGUE_SHARD)
        if self._part is not None:
            self._part.candidate.is_record_lost = state is None or is_stale(state, self.metadata.state)
        if state is not None:
            self.take_state(state)
        self.metadata.changed.set()

    def _level_changed(self, level: FeatureLevel) -> None:
        if level.level >= self.metadata.feature_level.level:
            self.metadata.feature_level = level
            self.metadata.changed.set()
            self._publish_level()

    def _publish_level(self) -> None:
        """Also with every look: a disk that was full may have room by now to note it."""
        try:
            self._owner.raise_level(self.metadata.level)
        except LonghallError as error:
            _log.warning("the feature level cannot be followed yet", extra={"reason": str(error)})

    # What is done

    async def _run(self) -> None:
        changed = self.metadata.changed
        while True:
            try:
                async with asyncio.timeout(LOOK_S):
                    await changed.wait()
            except TimeoutError:
                pass
            changed.clear()
            try:
                await self._look()
            except Conflict:
                continue  # Another node was quicker: its change is about to be heard.
            except CoordinationError as error:
                _log.debug("the coordinator could not be asked", extra={"reason": str(error)})
                await asyncio.sleep(PAUSE_S)

    async def _look(self) -> None:
        """Renew the registration, then do the leader's and the controller's work, as far as this node is either."""
        assert self._part is not None
        assert self._registration is not None
        duty, candidate = self._part.duty, self._part.candidate
        if self._coordinator.session is not Session.CONNECTED or not candidate.is_controller_known:
            return
        await self._registration.check()
        await self._registration.publish_condition()
        self._publish_level()
        if duty.is_serving:
            await duty.run()
        if self._campaigns:
            await candidate.run(self.metadata.controller_candidates)

    async def _raise_level(self) -> None:
        """Raise the feature level to the newest that all nodes know, where the settings leave it to the controller."""
        if self._raises_level:
            found = self.metadata.outlook
            if found.possible > found.level:
                await self.upgrade(found.possible)

    async def upgrade(self, level: int, *, dry_run: bool = False) -> LevelOutlook:
        """Raise the feature level; returns the outlook after that. LonghallError if not every node allows for it,
        CoordinationError if the coordinator does not answer.
        """
        found, raised = await raise_level(self._coordinator, await self.registrar.read(), level, dry_run=dry_run)
        if raised is None:
            return found
        self._level_changed(raised)
        return self.metadata.outlook

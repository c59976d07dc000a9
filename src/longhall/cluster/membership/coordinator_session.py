"""A node's session at the coordinator: what it hears there, what it says there, and the office of the controller.

    heard            done
    who lives        peers are told where to knock; doors tell clients
    the record       the member leads or follows, as it says; the one that leads starts to serve
    no manager       somebody campaigns, rather one who does not lead
    unfit            said to all: a manager lets another one lead, if there is one
    as manager       the `controller` looks whenever something changed
    as leader        who is dead is not waited for; one that is drained, or moved away, hands over
    the level        what may be written is told to the node, or that it cannot belong here any more
    session over     registered anew; whether somebody else was chosen meanwhile the record says

A session lives as long as its hall. It makes nothing safe by itself: the record is changed by compare-and-set alone,
and what a leader may acknowledge is the member's to know.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import Final, final

import msgspec

from longhall.broker.leadership import NOBODY, Host
from longhall.cluster.membership.candidates import STAND, Vote, VoteRequest
from longhall.cluster.membership.controller import TRANSFER, Controller, is_stale
from longhall.cluster.membership.election import REPLICAS_MAX, may_campaign, should_resign
from longhall.cluster.membership.feature_level import LevelOutlook, level_of, outlook, raise_level
from longhall.cluster.membership.liveness_probe import LivenessProbe
from longhall.cluster.membership.reassignment import ReassignmentGoals, leaving_of, makes_way, successor
from longhall.cluster.membership.record_recovery import RecordRecovery
from longhall.cluster.replication.group_replica import GroupRecord, GroupReplica, Role
from longhall.cluster.replication.leadership_suspicion import LeadershipSuspicion
from longhall.cluster.replication.leadership_transfer import transfer_leadership, wait_for_successor, withdraw
from longhall.cluster.replication.progress_notes import ProgressNotes
from longhall.cluster.rpc.addresses import addresses_of
from longhall.cluster.rpc.peers import Peers
from longhall.coordination.ports import (
    Conflict,
    CoordinationError,
    Coordinator,
    Expired,
    FeatureLevel,
    Manager,
    Session,
    ShardState,
    Watch,
)
from longhall.coordination.ports import MemberDescription as Described
from longhall.errors import Code, LonghallError
from longhall.names import CATALOGUE_SHARD
from longhall.world.ports import Network

TEND_S: Final = 0.25  # How often a manager looks although nothing was heard.
PAUSE_S: Final = 0.2  # After the coordinator could not be asked.
CALM_S: Final = 10.0  # Before a leader makes way for the one that is preferred.
TRANSFER_S_MAX: Final = 10.0  # A leader that has transferred takes messages again if nobody else leads by then.
OFFICE_PATIENCE_MS: Final = 3_000  # How long a leader leaves the office to others.
REGISTERED_S: Final = 2.0  # How often a node looks whether it is still registered.

_log = logging.getLogger("longhall.session")


@final
class CoordinatorSession:
    """Fulfils `broker.leadership.Leadership` and `cluster.replication.group_replica.Registrar`."""

    def __init__(
        self,
        coordinator: Coordinator,
        node: int,
        state: ShardState,
        network: Network,
        *,
        factor: int = REPLICAS_MAX,
        in_sync_min: int = 2,
    ) -> None:
        self.node = node
        self.drained: frozenset[int] = frozenset()  # Nodes that are to keep nothing.
        self.serving = False  # This node leads, and everything that a leader does is running.
        self.on_lead: Callable[[], Awaitable[None]] = _nothing
        self.condition: Callable[[], str] = _fit  # Why this node should rather not lead, if it should not.
        self.on_lost: Callable[[str], None] = _ignored  # The session is lost: start anew.
        self.on_level: Callable[[int], None] = _ignored  # The feature level that the cluster is at.
        self.on_record: Callable[[ShardState], None] = _ignored  # A newer record was seen.
        self.preferred = NOBODY  # Who should lead, if it can: of a wing.
        self.raises_level = False  # Whether this node, as manager, raises it as soon as that can be.
        self._coordinator = coordinator
        self._network = network
        self._state = state
        self._level = FeatureLevel()
        self._living: Mapping[int, Described] = {}
        self._manager: Manager | None = None
        self._heard_manager = False
        self._vacant_since_s = 0.0
        self._served_since_s = 0.0
        self._led_epoch = 0  # The last one that this node was to lead.
        self._checked_s = 0.0
        self._doubts = False  # The coordinator's record was seen to be gone, or older than the one known here.
        self._office: Manager | None = None
        self.copies = factor  # How many there should be, unless the record says otherwise.
        self._in_sync_min = in_sync_min
        self._doubting = LeadershipSuspicion(in_sync_min)
        self._progress = ProgressNotes(coordinator)
        self._handing = False
        self._knocking: LivenessProbe | None = None
        self._controller: Controller | None = None
        self._member: GroupReplica | None = None
        self._peers: Peers | None = None
        self._described: Described | None = None
        self._watches: list[Watch] = []
        self._tasks: set[asyncio.Future[None]] = set()
        self._claims: asyncio.Future[None] | None = None
        self._changed = asyncio.Event()
        self._loop = asyncio.get_running_loop()

    # Life

    async def take(self, member: GroupReplica, peers: Peers, described: Described, recovery: RecordRecovery) -> None:
        """Be seen, and take part from now on. CoordinationError when that cannot be."""
        self._member = member
        self._peers = peers
        self._knocking = LivenessProbe(self._network, peers)
        self._controller = Controller(
            self, self._coordinator, peers, self._knocking, recovery, look_again=self._changed.set
        )
        peers.serve(STAND, self._asked_to_stand)
        peers.serve(TRANSFER, self._asked_to_transfer)
        self._described = await self._coordinator.register(described)
        self._watches = [
            self._coordinator.on_session(self._session_changed),
            self._coordinator.watch_members(self._members_changed),
            self._coordinator.watch_shards(self._shards_changed),
            self._coordinator.watch_manager(self._manager_changed),
            self._coordinator.watch_drains(self._drains_changed),
            self._coordinator.watch_feature_level(self._level_changed),
        ]
        self._vacant_since_s = self._loop.time()
        self._employ(self._tend_always())

    def leave(self) -> None:
        """Hear nothing and do nothing any more; what is registered ends with the session."""
        self.serving = False
        for watch in self._watches:
            watch.cancel()
        for task in list(self._tasks):
            task.cancel()
        self._member = None

    def _employ(self, work: Awaitable[None]) -> asyncio.Future[None]:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._done)
        return task

    def _done(self, task: asyncio.Future[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and task.exception() is not None:
            _log.error("a duty of the session failed", exc_info=task.exception())
            self.on_lost("a duty of the session failed")

    # Leadership

    def leads(self, shard: int) -> bool:
        return self.serving and self._member is not None and self._member.role_of(shard) is Role.LEADER

    def leader_node(self, shard: int) -> int:
        member = self._member if self.serving else None
        doubtful = member is not None and self._doubting.has_reason(member.status)
        return NOBODY if doubtful else self._state.leader

    def epoch(self, shard: int) -> int:
        return self._state.epoch

    def replicas(self, shard: int) -> list[int]:
        return list(self._state.replicas)

    def in_sync(self, shard: int) -> list[int]:
        return list(self._state.in_sync)

    def members(self) -> list[Host]:
        return [
            Host(
                node=number,
                kafka=one.addresses.get("kafka", ""),
                sqs=one.addresses.get("sqs", ""),
                http=one.addresses.get("http", ""),
                peers=one.addresses.get("peer", ""),
                rack=one.rack,
            )
            for number, one in sorted(self._living.items())
        ]

    @property
    def state(self) -> ShardState:
        """The record, as it was last heard of."""
        return self._state

    @property
    def factor(self) -> int:
        """How many copies there should be."""
        return self._state.factor or self.copies

    @property
    def in_sync_min(self) -> int:
        """How many of them must have everything for messages to be taken."""
        return self._in_sync_min

    @property
    def level(self) -> int:
        """The feature level of the cluster."""
        return level_of(self._level.level)

    def wishes(self, state: ShardState, drained: frozenset[int]) -> ReassignmentGoals:
        """How many copies there should be."""
        return ReassignmentGoals(state.factor or self.copies, self._in_sync_min, drained)

    @property
    def living(self) -> Mapping[int, Described]:
        """The live nodes, as they describe themselves."""
        return self._living

    @property
    def outlook(self) -> LevelOutlook:
        """The feature level, and what the nodes allow for."""
        return outlook(self._level.level, self._living, self._state.replicas)

    @property
    def manager(self) -> int:
        """The node that manages, as far as is known; NOBODY for none."""
        return self._manager.node_id if self._manager is not None else NOBODY

    @property
    def has_leader(self) -> bool:
        """Whether there is somebody to send clients to: this node serving, or another one on record."""
        if self._state.leader == self.node:
            return self.serving
        return self._state.leader != NOBODY and self._state.leader in self._living

    # Registrar

    async def record_in_sync(self, epoch: int, version: int, in_sync: frozenset[int]) -> GroupRecord | None:
        state = self._state
        try:
            if state.revision < version:
                state = await self._read()
            if (state.epoch, state.leader) != (epoch, self.node):
                return None
            if state.revision != version:
                return _record(state)
            after = msgspec.structs.replace(state, in_sync=tuple(sorted(in_sync)))
            self.take_state(await self._coordinator.change_shard(state, after))
        except Conflict:
            return await self._record_anew(epoch)
        except Expired:
            raise ConnectionError("the session is over; another one begins") from None
        except CoordinationError:
            return await self._read_back(epoch, in_sync)
        return _record(self._state)

    async def _record_anew(self, epoch: int) -> GroupRecord | None:
        try:
            self.take_state(await self._read())
        except CoordinationError as error:
            raise ConnectionError(f"the coordinator does not answer: {error}") from None
        return _record(self._state) if (self._state.epoch, self._state.leader) == (epoch, self.node) else None

    async def _read_back(self, epoch: int, in_sync: frozenset[int]) -> GroupRecord | None:
        """Nobody knows what became of it: unless it is seen to be done, the member has to reckon with both."""
        found = await self._record_anew(epoch)
        if found is not None and found.in_sync != in_sync:
            raise ConnectionError("the coordinator did not say whether it was done")
        return found

    def epoch_claimed(self, epoch: int) -> None:
        """Only the coordinator gives epochs: the record is read, and says whether this node still leads."""
        if self._claims is None or self._claims.done():
            self._claims = self._employ(self._check_claim(epoch))

    async def _check_claim(self, epoch: int) -> None:
        _log.warning("a node claims a later epoch; the record is read", extra={"epoch": epoch})
        try:
            self.take_state(await self._read())
        except CoordinationError as error:
            _log.info("the record could not be read", extra={"reason": str(error)})

    async def renounce(self, epoch: int) -> None:
        """This node leads the epoch and lacks committed entries: others that are in sync have them."""
        try:
            state = await self._read()
            in_sync = tuple(node for node in state.in_sync if node != self.node)
            if (state.epoch, state.leader) != (epoch, self.node) or not in_sync:
                return
            after = msgspec.structs.replace(state, leader=NOBODY, in_sync=in_sync)
            self.take_state(await self._coordinator.change_shard(state, after))
        except CoordinationError as error:
            raise ConnectionError(f"the coordinator does not answer: {error}") from None

    async def _read(self) -> ShardState:
        """The record. CoordinationError if there is none, or an older one than this node has seen: who follows the
        controller's work finds it rebuilt soon.
        """
        state = await self._coordinator.shard(CATALOGUE_SHARD)
        if state is None:
            raise CoordinationError("the coordinator has lost the record of the cluster")
        if is_stale(state, self._state):
            raise CoordinationError("the coordinator has an older record of the cluster than this node has seen")
        return state

    # What is heard

    def _session_changed(self, session: Session) -> None:
        _log.info("the session with the coordinator changed", extra={"session": session.value})
        self._doubting.hear(session)
        if session is Session.EXPIRED:
            self._office = None
        if session is Session.CONNECTED:
            self._employ(self._register_again())

    async def _register_again(self) -> None:
        while self._described is not None:
            try:
                self._described = await self._coordinator.register(self._described)
                return
            except Conflict as error:
                self.on_lost(str(error))
                return
            except CoordinationError:
                await asyncio.sleep(PAUSE_S)

    def _members_changed(self, members: Mapping[int, Described]) -> None:
        self._living = members
        assert self._peers is not None
        # Of those that are gone the last address is kept: one may be gone for the coordinator alone.
        known = addresses_of({number: one.addresses.get("peer", "") for number, one in members.items()})
        self._peers.addresses.update({number: place for number, place in known.items() if number != self.node})
        self._changed.set()

    def _drains_changed(self, drained: frozenset[int]) -> None:
        self.drained = drained
        self._changed.set()

    def _manager_changed(self, manager: Manager | None) -> None:
        self._manager = manager
        self._heard_manager = True
        if manager is None or manager.node_id != self.node:
            self._office = None
            self._vacant_since_s = self._loop.time()
        self._changed.set()

    def _shards_changed(self, states: Mapping[int, ShardState]) -> None:
        state = states.get(CATALOGUE_SHARD)
        self._doubts = state is None or is_stale(state, self._state)
        if state is not None:
            self.take_state(state)
        self._changed.set()

    def _level_changed(self, level: FeatureLevel) -> None:
        if level.level >= self._level.level:
            self._level = level
            self._changed.set()
            self._tell_level()

    def _tell_level(self) -> None:
        """Also again and again: a disk that was full may have room by now to note it."""
        try:
            self.on_level(level_of(self._level.level))
        except LonghallError as error:
            _log.warning("the feature level cannot be followed yet", extra={"reason": str(error)})

    async def _asked_to_stand(self, node: int, asked: bytes) -> bytes:
        """The controller asks what is here. It must have deposed the leader on record first: an epoch that the
        coordinator has not given is refused.
        """
        return msgspec.msgpack.encode(await self.stand(msgspec.msgpack.decode(asked, type=VoteRequest).epoch))

    async def stand(self, epoch: int) -> Vote:
        if epoch > self._state.epoch:
            try:
                self.take_state(await self._read())
            except CoordinationError as error:
                raise LonghallError(Code.NOT_READY, f"the record cannot be read: {error}") from None
        member = self._member
        if member is None:
            raise LonghallError(Code.NOT_READY, "this node takes no part")
        if epoch > self._state.epoch:
            raise LonghallError(Code.FENCED_LEADER_EPOCH, f"the coordinator has not given the epoch {epoch}")
        known, index = member.vote(epoch)
        return Vote(epoch=known, index=index)

    async def _asked_to_transfer(self, node: int, asked: bytes) -> bytes:
        """The controller sees that this node leads without a session: another one is to lead, with everything that
        was acknowledged here.
        """
        member, successor = self._member, int(asked)
        if member is None or not self.serving or self._handing:
            raise LonghallError(Code.NOT_LEADER, "this node does not lead")
        _log.warning("the leadership is transferred", extra={"to": successor, "asked_by": node})
        member.set_transferring(True)
        self._loop.call_later(TRANSFER_S_MAX, member.set_transferring, False)
        await wait_for_successor(member, successor, committed=False)
        return b""

    def take_state(self, state: ShardState) -> None:
        if is_stale(state, self._state):
            return
        if state != self._state:  # What a controller reads at every look is no news.
            self._changed.set()
        self._state, member = state, self._member
        self.on_record(state)
        if member is None or state.epoch < member.replica.epoch:
            return  # Nobody leads or follows under an epoch that is older than the log.
        if state.leader != self.node:
            self.serving = False
            # Whoever is not to keep the hall has nobody to follow.
            member.become_follower(state.epoch, state.leader if self.node in state.replicas else NOBODY)
        elif member.leading is None and self._led_epoch != state.epoch:
            self._led_epoch = state.epoch
            self._employ(self._lead(member, state))
        else:
            member.recorded(state.epoch, _record(state))

    async def _lead(self, member: GroupReplica, state: ShardState) -> None:
        _log.info("this node is to lead", extra={"epoch": state.epoch, "in_sync": state.in_sync})
        try:
            await member.become_leader(state.epoch, _record(state))
        except LonghallError as error:
            _log.info("leading came to nothing", extra={"epoch": state.epoch, "reason": str(error)})
            await self._decline(state)
            return
        await self.on_lead()
        self.serving = self._member is member
        self._served_since_s = self._loop.time()
        _log.info("this node leads", extra={"epoch": state.epoch})

    async def _decline(self, state: ShardState) -> None:
        """Say that this node does not lead although it was chosen, unless the record says so by now."""
        while self._state.epoch == state.epoch and self._state.leader == self.node:
            try:
                after = msgspec.structs.replace(self._state, leader=NOBODY)
                self.take_state(await self._coordinator.change_shard(self._state, after))
            except CoordinationError:
                await asyncio.sleep(PAUSE_S)
                self.take_state(await self._read())

    async def transfer_leadership(self, node: int = NOBODY) -> bool:
        """Give the hall to this node, or to whoever is best. False when this node does not lead, or nobody could take
        it; LonghallError when nothing came of it, and then this node leads on.
        """
        member, state = self._member, self._state
        fit = frozenset(number for number, one in self._living.items() if not one.unfit)
        node = node or successor(state, fit or frozenset(self._living), self.drained)
        if member is None or not self.serving or self._handing or node in (NOBODY, self.node):
            return False
        self._handing = True
        self.serving = False  # Requests wait at the doors until somebody leads.
        try:
            state = await transfer_leadership(self._coordinator, member, state, node, self._in_sync_min)
        except BaseException:
            self.serving = self._state.leader == self.node and member.role_of(CATALOGUE_SHARD) is Role.LEADER
            raise
        finally:
            self._handing = False
        self.take_state(state)
        return True

    async def withdraw(self) -> None:
        """The node stops: whoever is left need not wait for it."""
        await withdraw(self._coordinator, self.node, self._state, self._living, self._read)

    # The manager

    async def _tend_always(self) -> None:
        while True:
            try:
                async with asyncio.timeout(TEND_S):
                    await self._changed.wait()
            except TimeoutError:
                pass
            self._changed.clear()
            try:
                await self._tend()
            except Conflict:
                continue  # Somebody was quicker: what changed is about to be heard.
            except CoordinationError as error:
                _log.debug("the coordinator could not be asked", extra={"reason": str(error)})
                await asyncio.sleep(PAUSE_S)

    async def _tend(self) -> None:
        if self._coordinator.session is not Session.CONNECTED or not self._heard_manager:
            return
        await self._stay_registered()
        await self._tell_condition()
        self._tell_level()
        alive = frozenset(self._living)
        if self.serving:
            await self._look_after()
            if self._member is not None:
                await self._progress.write(self._member, self.level)
        if self._doubts and self._office is None and self._controller is not None:
            self._doubts = await self._controller.recover_lost()
        if self._office is None:
            vacant_ms = int((self._loop.time() - self._vacant_since_s) * 1000)
            manager = NOBODY if self.manager == self.node else self.manager  # An office of an earlier session.
            if not may_campaign(self.node, self._state.leader, alive, manager, vacant_ms, OFFICE_PATIENCE_MS):
                return
            office = await self._coordinator.campaign(self.node)
            if office.node_id != self.node:
                return
            self._office = self._manager = office
            _log.info("this node manages", extra={"term": office.epoch})
        if should_resign(self.node, self._state.leader, alive):
            office, self._office, self._manager = self._office, None, None
            self._vacant_since_s = self._loop.time()
            await self._coordinator.resign(office)
            return
        assert self._controller is not None
        if not await self._controller.look(self._office):
            await self._raise_level()

    async def _stay_registered(self) -> None:
        """What is registered may be lost although the session goes on: with all data of the coordinator."""
        if self._described is not None and self._loop.time() - self._checked_s > REGISTERED_S:
            self._checked_s = self._loop.time()
            if await self._coordinator.member(self.node) is None:
                _log.warning("the coordinator has forgotten this node; it registers again")
                self._described = await self._coordinator.register(self._described)

    async def _tell_condition(self) -> None:
        assert self._described is not None
        unfit = self.condition()
        if unfit != self._described.unfit:
            _log.warning("whether this node should lead has changed", extra={"unfit": unfit})
            self._described = await self._coordinator.register(msgspec.structs.replace(self._described, unfit=unfit))

    async def _raise_level(self) -> None:
        """To the newest that all nodes know, where the settings leave it to the manager."""
        if self.raises_level:
            found = self.outlook
            if found.possible > found.level:
                await self.upgrade(found.possible)

    async def upgrade(self, level: int, *, dry_run: bool = False) -> LevelOutlook:
        """Raise the feature level; returns how things stand then. LonghallError when not every node allows for it,
        CoordinationError when the coordinator does not answer.
        """
        found, raised = await raise_level(self._coordinator, await self._read(), level, dry_run=dry_run)
        if raised is None:
            return found
        self._level_changed(raised)
        return self.outlook

    # The leader

    async def _look_after(self) -> None:
        """Whoever is dead is not waited for, though the manager may have died with it; whoever is to go goes."""
        member = self._member
        assert member is not None
        assert self._knocking is not None
        silent = [one.node for one in member.status().followers if one.in_sync and not one.connected]
        if silent:
            dead, refused = await self._knocking.knock(silent)
            for node in dead:
                member.give_up(node)
            if refused and not dead:
                self._changed.set()
                await asyncio.sleep(PAUSE_S)
        state = self._state
        going = self.node in leaving_of(state, self.drained) and len(state.in_sync) > self._in_sync_min
        fit = frozenset(number for number, one in self._living.items() if not one.unfit)
        calm = self._loop.time() - self._served_since_s > CALM_S
        if going or (calm and makes_way(state, self.preferred, fit, self.drained, self._in_sync_min)):
            try:
                await self.transfer_leadership(NOBODY if going else self.preferred)
            except LonghallError:
                await asyncio.sleep(PAUSE_S)  # The log says why; it is tried again.


def _record(state: ShardState) -> GroupRecord:
    return GroupRecord(
        version=state.revision,
        in_sync=frozenset(state.in_sync),
        replicas=frozenset(state.replicas) | {state.leader},
        unclean_epoch=state.unclean_epoch,
    )


async def _nothing() -> None:
    """Until assembly says otherwise."""


def _fit() -> str:
    """Likewise."""
    return ""


def _ignored(what: object) -> None:
    """Likewise."""

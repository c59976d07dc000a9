"""A node's seat in its cluster: what it hears from the coordinator, what it says there, and the office of the manager.

    heard            done
    who lives        peers are told where to knock; doors tell clients
    the record       the member leads or follows, as it says; the one that leads starts to serve
    no manager       somebody campaigns, rather one who does not lead
    unfit            said to all: a manager lets another one lead, if there is one
    as manager       `electing.decide` and `moving.next_step` are asked whenever something changed, and their answers
                     written, under the term; who is to lead is asked of those in sync, see `choosing`
    as leader        who is dead is not waited for; one that is drained, or moved away, hands over
    the level        what may be written is told to the node, or that it cannot belong here any more
    session over     registered anew; whether somebody else was chosen meanwhile the record says

A seat lives as long as its hall. It makes nothing safe by itself: the record is changed by compare-and-set alone, and
what a leader may acknowledge is the member's to know.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import Final, final

import msgspec

from longhall.broker.gates import ACKNOWLEDGE_LEVEL
from longhall.broker.leadership import NOBODY, Host
from longhall.cluster.choosing import ANSWER_S, STAND, Stand, Standing, most_complete
from longhall.cluster.doubting import Doubting
from longhall.cluster.electing import REPLICAS_MAX, Wanted, decide, may_campaign, should_resign
from longhall.cluster.handing import hand_over
from longhall.cluster.knocking import Knocking
from longhall.cluster.levels import Outlook, level_of, outlook
from longhall.cluster.member import Member, Record, Role
from longhall.cluster.moving import Wishes, leaving_of, makes_way, next_step, successor
from longhall.cluster.peers import Peers
from longhall.cluster.routing import addresses_of
from longhall.coordination.ports import (
    Conflict,
    CoordinationError,
    Coordinator,
    Expired,
    FeatureLevel,
    Manager,
    OutcomeUnknown,
    Session,
    ShardState,
    Watch,
)
from longhall.coordination.ports import Member as Described
from longhall.errors import Code, LonghallError
from longhall.names import CATALOGUE_SHARD
from longhall.world.ports import Network

TEND_S: Final = 0.25  # How often a manager looks although nothing was heard.
PAUSE_S: Final = 0.2  # After the coordinator could not be asked.
CALM_S: Final = 10.0  # Before a leader makes way for the one that is preferred.
OFFICE_PATIENCE_MS: Final = 3_000  # How long a leader leaves the office to others.
WITHDRAWALS_MAX: Final = 8

_log = logging.getLogger("longhall.seat")


@final
class Seat:
    """Fulfils `broker.leadership.Leadership` and `cluster.member.Registrar`."""

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
        self.on_lost: Callable[[str], None] = _ignored  # The seat is lost: start anew.
        self.on_level: Callable[[int], None] = _unheard  # The feature level that the cluster is at.
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
        self._office: Manager | None = None
        self.copies = factor  # How many there should be, unless the record says otherwise.
        self._in_sync_min = in_sync_min
        self._doubting = Doubting(in_sync_min)
        self._handing = False
        self._knocking: Knocking | None = None
        self._member: Member | None = None
        self._peers: Peers | None = None
        self._described: Described | None = None
        self._watches: list[Watch] = []
        self._tasks: set[asyncio.Task[None]] = set()
        self._changed = asyncio.Event()
        self._loop = asyncio.get_running_loop()

    # Life

    async def take(self, member: Member, peers: Peers, described: Described) -> None:
        """Be seen, and take part from now on. CoordinationError when that cannot be."""
        self._member = member
        self._peers = peers
        self._knocking = Knocking(self._network, peers)
        peers.serve(STAND, self._stand)
        self._described = await self._coordinator.register(described)
        await self._raise_epoch(member.position()[0])
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

    def _employ(self, work: Awaitable[None]) -> None:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._done)

    def _done(self, task: asyncio.Future[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and task.exception() is not None:
            _log.error("a duty of the seat failed", exc_info=task.exception())
            self.on_lost("a duty of the seat failed")

    async def _raise_epoch(self, epoch: int) -> None:
        """A directory that was a lone node's has epochs of its own: those of the cluster begin behind them."""
        while self._state.epoch < epoch and self._state.leader == NOBODY:
            try:
                after = msgspec.structs.replace(self._state, epoch=epoch)
                self._state = await self._coordinator.change_shard(self._state, after)
            except (Conflict, OutcomeUnknown):
                self._state = await self._read()

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
    def living(self) -> Mapping[int, Described]:
        """The live nodes, as they describe themselves."""
        return self._living

    @property
    def outlook(self) -> Outlook:
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

    async def record_in_sync(self, epoch: int, version: int, in_sync: frozenset[int]) -> Record | None:
        state = self._state
        try:
            if state.version < version:
                state = await self._read()
            if (state.epoch, state.leader) != (epoch, self.node):
                return None
            if state.version != version:
                return _record(state)
            after = msgspec.structs.replace(state, in_sync=tuple(sorted(in_sync)))
            self._take_state(await self._coordinator.change_shard(state, after))
        except Conflict:
            return await self._record_anew(epoch)
        except Expired:
            raise ConnectionError("the session is over; another one begins") from None
        except CoordinationError:
            return await self._read_back(epoch, in_sync)
        return _record(self._state)

    async def _record_anew(self, epoch: int) -> Record | None:
        try:
            self._take_state(await self._read())
        except CoordinationError as error:
            raise ConnectionError(f"the coordinator does not answer: {error}") from None
        return _record(self._state) if (self._state.epoch, self._state.leader) == (epoch, self.node) else None

    async def _read_back(self, epoch: int, in_sync: frozenset[int]) -> Record | None:
        """Nobody knows what became of it: unless it is seen to be done, the member has to reckon with both."""
        found = await self._record_anew(epoch)
        if found is not None and found.in_sync != in_sync:
            raise ConnectionError("the coordinator did not say whether it was done")
        return found

    async def _read(self) -> ShardState:
        state = await self._coordinator.shard(CATALOGUE_SHARD)
        if state is None:
            raise CoordinationError("the record of the hall is gone")
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
        if state is not None:
            self._take_state(state)

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

    async def _stand(self, node: int, asked: bytes) -> bytes:
        """Another node, which manages, asks what is here."""
        member = self._member
        if member is None:
            raise LonghallError(Code.NOT_READY, "this node takes no part")
        epoch, index = member.stand(msgspec.msgpack.decode(asked, type=Stand).epoch)
        return msgspec.msgpack.encode(Standing(epoch=epoch, index=index))

    def _take_state(self, state: ShardState) -> None:
        if state.version < self._state.version:
            return
        before, self._state = self._state, state
        member = self._member
        self._changed.set()
        if member is None:
            return
        if state.leader != self.node:
            self.serving = False
            # Whoever is not to keep the hall has nobody to follow.
            member.become_follower(state.epoch, state.leader if self.node in state.replicas else NOBODY)
        elif state.epoch > member.epoch or (state.epoch == member.epoch and before.leader != self.node):
            self._employ(self._lead(member, state))
        else:
            member.recorded(state.epoch, _record(state))

    async def _lead(self, member: Member, state: ShardState) -> None:
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
                self._take_state(await self._coordinator.change_shard(self._state, after))
            except CoordinationError:
                await asyncio.sleep(PAUSE_S)
                self._take_state(await self._read())

    async def hand_over(self, node: int = NOBODY) -> bool:
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
            state = await hand_over(self._coordinator, member, state, node, self._in_sync_min)
        except BaseException:
            self.serving = self._state.leader == self.node and member.role_of(CATALOGUE_SHARD) is Role.LEADER
            raise
        finally:
            self._handing = False
        self._take_state(state)
        return True

    async def withdraw(self) -> None:
        """The node stops: whoever is left need not wait for it. A leader stays in sync, since it has everything."""
        for _ in range(WITHDRAWALS_MAX):
            state = self._state
            leads = state.leader == self.node
            others = [node for node in state.in_sync if node != self.node and node in self._living]
            in_sync = state.in_sync if leads or not others else tuple(one for one in state.in_sync if one != self.node)
            after = msgspec.structs.replace(state, leader=NOBODY if leads else state.leader, in_sync=in_sync)
            if (after.leader, after.in_sync) == (state.leader, state.in_sync):
                return
            try:
                await self._coordinator.change_shard(state, after)
                return
            except Conflict:
                self._state = await self._read()
            except CoordinationError:
                break
        _log.info("others will notice by themselves that this node stops")

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
        await self._tell_condition()
        self._tell_level()
        alive = frozenset(self._living)
        if self.serving:
            await self._look_after()
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
        await self._manage(self._office)

    async def _tell_condition(self) -> None:
        assert self._described is not None
        unfit = self.condition()
        if unfit != self._described.unfit:
            _log.warning("whether this node should lead has changed", extra={"unfit": unfit})
            self._described = await self._coordinator.register(msgspec.structs.replace(self._described, unfit=unfit))

    async def _manage(self, office: Manager) -> None:
        # A machine that is gone answers no knock, which takes a moment: who lives is asked afterwards.
        suspects = await self._suspects(self._state)
        state = self._state = await self._read()
        members = await self._coordinator.members()
        unfit = frozenset(number for number, one in members.items() if one.unfit)
        wanted = decide(state, frozenset(members), suspects, unfit)
        if wanted is None:
            racks = {node: one.rack for node, one in members.items() if node not in suspects}
            if not await self._place(office, state, racks):
                await self._raise_level()
            return
        if wanted.elects and level_of(self._level.level) >= ACKNOWLEDGE_LEVEL:
            state, wanted = await self._weigh(office, state, wanted)
        epoch = await self._coordinator.next_epoch(above=state.epoch) if wanted.elects else state.epoch
        after = msgspec.structs.replace(state, leader=wanted.leader, in_sync=wanted.in_sync, epoch=epoch)
        self._take_state(await self._coordinator.change_shard(state, after, under=office))
        if wanted.elects:
            told = {"leader": wanted.leader, "epoch": epoch, "in_sync": wanted.in_sync, "was": state.leader}
            _log.info("a leader was chosen", extra=told)

    async def _place(self, office: Manager, state: ShardState, racks: Mapping[int, str]) -> bool:
        """Who keeps the hall: one step, if there is one to be taken. Whether there was."""
        drained = await self._coordinator.drains()
        after = next_step(state, racks, Wishes(state.factor or self.copies, self._in_sync_min, drained))
        if after is not None:
            self._take_state(await self._coordinator.change_shard(state, after, under=office))
            _log.info("replicas", extra={"nodes": after.replicas, "were": state.replicas, "in_sync": after.in_sync})
        return after is not None

    async def _weigh(self, office: Manager, state: ShardState, wanted: Wanted) -> tuple[ShardState, Wanted]:
        """The same with the most complete of those in sync as leader. The old one is deposed before they are asked."""
        candidates = [wanted.leader, *(node for node in wanted.in_sync if node not in (wanted.leader, state.leader))]
        if len(candidates) == 1:
            return state, wanted
        if state.leader != NOBODY:
            epoch = await self._coordinator.next_epoch(above=state.epoch)
            after = msgspec.structs.replace(state, leader=NOBODY, epoch=epoch)
            state = await self._coordinator.change_shard(state, after, under=office)
            self._take_state(state)
        leader = await most_complete(self._ask_standing, candidates, state.epoch, len(state.in_sync))
        return state, wanted._replace(leader=leader)

    async def _ask_standing(self, node: int, epoch: int) -> Standing:
        asked = msgspec.msgpack.encode(Stand(epoch=epoch))
        if node == self.node:
            return msgspec.msgpack.decode(await self._stand(node, asked), type=Standing)
        assert self._peers is not None
        return msgspec.msgpack.decode(await self._peers.request(node, STAND, asked, ANSWER_S), type=Standing)

    async def _raise_level(self) -> None:
        """To the newest that all nodes know, where the settings leave it to the manager."""
        if self.raises_level:
            found = self.outlook
            if found.possible > found.level:
                await self.upgrade(found.possible)

    async def upgrade(self, level: int, *, dry_run: bool = False) -> Outlook:
        """Raise the feature level; returns how things stand then. LonghallError when not every node allows for it,
        CoordinationError when the coordinator is of no help.
        """
        record = await self._coordinator.feature_level()
        state = await self._read()
        found = outlook(record.level, await self._coordinator.members(), state.replicas)
        if level < found.level:
            reason = f"the cluster is at feature level {found.level}, and a level never goes down"
            raise LonghallError(Code.INVALID_CONFIGURATION, reason)
        if level > found.possible:
            why = "; ".join(found.obstacles)
            raise LonghallError(Code.INVALID_CONFIGURATION, f"feature level {level} cannot be reached: {why}")
        if dry_run:
            return found
        if level > found.level:
            self._level_changed(await self._coordinator.change_feature_level(record, level))
            _log.info("the feature level was raised", extra={"level": level, "was": found.level})
        return self.outlook

    async def _suspects(self, state: ShardState) -> frozenset[int]:
        """Those in sync that are dead whatever their sessions say."""
        assert self._knocking is not None
        dead, refused = await self._knocking.knock(node for node in state.in_sync if node != self.node)
        if refused:
            self._changed.set()  # Knock again soon.
            await asyncio.sleep(PAUSE_S)
        return dead

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
                await self.hand_over(NOBODY if going else self.preferred)
            except LonghallError:
                await asyncio.sleep(PAUSE_S)  # The log says why; it is tried again.


def _record(state: ShardState) -> Record:
    return Record(
        version=state.version, in_sync=frozenset(state.in_sync), replicas=frozenset(state.replicas) | {state.leader}
    )


async def _nothing() -> None:
    """Until assembly says otherwise."""


def _fit() -> str:
    """Likewise."""
    return ""


def _ignored(reason: str) -> None:
    """Likewise."""


def _unheard(level: int) -> None:
    """Likewise."""

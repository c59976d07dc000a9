"""The controller of a replication group: the one node that elects leaders and places replicas, while it holds office.

    every look    nodes in sync whose machine refuses connections are dead, whatever their sessions say
                  a leader whose session is gone and that answers all the same keeps its office: it registers again, or
                  transfers the leadership to a replica that has everything it acknowledged
                  `electing.decide` and `moving.next_step` say what the record should be; it is written under the term
    an election   the old leader is deposed on record, then every candidate says what it has (`choosing`), and who has
                  most leads. While a candidate that may have more is silent nobody is elected
    no record     it is rebuilt from the logs if that can be proven (`record_recovery`)

It makes nothing safe by itself: the record is changed by compare-and-set alone.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from typing import Final, NamedTuple, Protocol, final

import msgspec

from longhall.broker.feature_gates import ACKNOWLEDGE_LEVEL
from longhall.broker.leadership import NOBODY
from longhall.cluster.membership.candidates import ANSWER_S, STAND, Vote, VoteRequest, most_complete
from longhall.cluster.membership.copy_report import LEADER
from longhall.cluster.membership.election import UNCLEAN, NextRecord, decide
from longhall.cluster.membership.liveness_probe import LivenessProbe
from longhall.cluster.membership.reassignment import ReassignmentGoals, next_step
from longhall.cluster.membership.record_recovery import RecordRecovery
from longhall.cluster.replication.leadership_transfer import PATIENCE_S as TRANSFER_S
from longhall.cluster.rpc.peers import Peers
from longhall.coordination.ports import Coordinator, Manager, ShardState
from longhall.coordination.ports import MemberDescription as Described
from longhall.errors import LonghallError
from longhall.names import CATALOGUE_SHARD

TRANSFER: Final = "transfer-leadership"
GRACE_S: Final = 3.0  # For a leader that lives to register again.
GRACE_S_MAX: Final = 20.0  # For it to transfer the leadership; then the most complete of the others leads.
PAUSE_S: Final = 0.2
PROBE_S: Final = 0.5  # A leader that does not answer for so long does not keep its office.

_log = logging.getLogger("longhall.controller")


class ControllerSeat(Protocol):
    """What the controller needs of the node that holds the office."""

    node: int

    @property
    def level(self) -> int:
        """The feature level of the cluster."""

    @property
    def state(self) -> ShardState:
        """The newest record that this node knows."""

    def take_state(self, state: ShardState) -> None:
        """This is the record now."""

    def wishes(self, state: ShardState, drained: frozenset[int]) -> ReassignmentGoals:
        """How many copies there should be."""

    async def stand(self, epoch: int) -> Vote:
        """What this node has itself."""


class MissingSession(NamedTuple):
    """The leader of this epoch leads, and has no session: since when, and when that was seen last. A controller that
    has not looked for a while does not know how long.
    """

    epoch: int
    since_s: float
    seen_s: float


@final
class Controller:
    """See the module."""

    def __init__(
        self,
        office: ControllerSeat,
        coordinator: Coordinator,
        peers: Peers,
        knocking: LivenessProbe,
        recovery: RecordRecovery,
        look_again: Callable[[], None],
    ) -> None:
        self._office = office
        self._coordinator = coordinator
        self._peers = peers
        self._knocking = knocking
        self._recovery = recovery
        self._look_again = look_again
        self._loop = asyncio.get_running_loop()
        self._missing: MissingSession | None = None  # A leader that lives and has no session.

    async def look(self, term: Manager) -> bool:
        """Look at everything once and take one step, if there is one to be taken. False if there was none."""
        known = self._office.state
        # A machine that is gone answers no probe, which takes a moment: who is registered is asked afterwards.
        suspects = await self._suspects(known)
        state = await self._coordinator.shard(CATALOGUE_SHARD)
        if state is None or is_stale(state, known):
            await self._recover(state)
            return True
        self._office.take_state(state)
        members = await self._coordinator.members()
        part = {number: one for number, one in members.items() if not one.halted}
        alive = frozenset(part) | await self._living_leader(state, part, suspects)
        unfit = frozenset(number for number, one in part.items() if one.unfit)
        unclean = frozenset(number for number, one in part.items() if one.unfit == UNCLEAN)
        least = self._office.wishes(state, frozenset()).in_sync_min
        wanted = decide(state, alive, suspects, unfit, unclean, least)
        if await self._is_contradicted(state, members):
            await self._recover(state)
            return True
        if wanted is None:
            return await self._place(term, state, part, suspects)
        await self._change(term, state, wanted)
        return True

    async def _is_contradicted(self, state: ShardState, members: Mapping[int, Described]) -> bool:
        """True if a node that takes no part has seen a later record, or has entries of a later epoch: nothing is
        changed under this one.
        """
        halted = [node for node, one in members.items() if one.halted]
        for report in await asyncio.gather(*(self._recovery.ask(node) for node in halted)):
            if report is not None and (report.revision > state.revision or report.epoch > state.epoch):
                return True
        return False

    async def recover_lost(self) -> bool:
        """Rebuild the record if it is gone, or older than this node knows, whoever holds the office: others may not
        know better. True if it still is.
        """
        state = await self._coordinator.shard(CATALOGUE_SHARD)
        if state is not None and not is_stale(state, self._office.state):
            return False
        await self._recover(state)
        return True

    async def _recover(self, stale: ShardState | None) -> None:
        record = await self._recovery.attempt(stale)
        if record is not None:
            self._office.take_state(record)
        else:
            await asyncio.sleep(PAUSE_S)

    async def _living_leader(
        self, state: ShardState, members: Mapping[int, Described], suspects: frozenset[int]
    ) -> frozenset[int]:
        """The leader, if it has no session and leads all the same: what it alone has acknowledged is not given up."""
        leader = state.leader
        if leader in (NOBODY, self._office.node) or leader in members or leader in suspects:
            self._missing = None
            return frozenset()
        report = await self._recovery.ask(leader, PROBE_S) if leader in self._knocking.reached else None
        if report is None or report.role != LEADER or report.epoch != state.epoch:
            return frozenset()
        now_s = self._loop.time()
        missing = self._missing
        if missing is None or missing.epoch != state.epoch or now_s - missing.seen_s > GRACE_S:
            missing = MissingSession(state.epoch, since_s=now_s, seen_s=now_s)
            _log.warning("the leader has no session with the coordinator, but leads", extra={"leader": leader})
        missed_s = now_s - missing.since_s
        if missed_s > GRACE_S_MAX:
            _log.error("the leader neither registers nor transfers its leadership", extra={"leader": leader})
            return frozenset()
        is_transferred = missed_s > GRACE_S and await self._transferred(state, members, suspects)
        self._missing = missing._replace(seen_s=self._loop.time())
        return frozenset() if is_transferred else frozenset({leader})

    async def _transferred(self, state: ShardState, members: Mapping[int, Described], suspects: frozenset[int]) -> bool:
        """Have the leader wait until a candidate has everything. True if it did, and takes no more messages."""
        wanted = decide(state, frozenset(members), suspects)
        if wanted is None or not wanted.elects:
            return False
        try:
            asked = b"%d" % wanted.leader
            await self._peers.request(state.leader, TRANSFER, asked, TRANSFER_S + ANSWER_S)
        except (OSError, TimeoutError, LonghallError) as error:
            _log.info("the leader did not transfer its leadership", extra={"reason": str(error)})
            return False
        return True

    async def _change(self, term: Manager, state: ShardState, wanted: NextRecord) -> None:
        if wanted.elects and self._office.level >= ACKNOWLEDGE_LEVEL:
            weighed = await self._weigh(term, state, wanted)
            if weighed is None:
                await asyncio.sleep(PAUSE_S)
                self._look_again()
                return
            state, wanted = weighed
        epoch = await self._coordinator.next_epoch(above=state.epoch) if wanted.elects else state.epoch
        after = msgspec.structs.replace(state, leader=wanted.leader, in_sync=wanted.in_sync, epoch=epoch)
        self._office.take_state(await self._coordinator.change_shard(state, after, under=term))
        if wanted.elects:
            told = {"leader": wanted.leader, "epoch": epoch, "in_sync": wanted.in_sync, "was": state.leader}
            _log.info("a leader was elected", extra=told)

    async def _weigh(
        self, term: Manager, state: ShardState, wanted: NextRecord
    ) -> tuple[ShardState, NextRecord] | None:
        """The same with the most complete candidate as leader, and the old leader deposed; None while too few of the
        candidates say what they have.
        """
        candidates = [wanted.leader, *(node for node in wanted.in_sync if node not in (wanted.leader, state.leader))]
        state, noted = await asyncio.gather(self._deposed(term, state), self._coordinator.progress())
        committed = (noted.epoch, noted.index) if noted.epoch > state.unclean_epoch else (0, 0)
        leader = await most_complete(self._ask_standing, candidates, state.epoch, len(state.in_sync), committed)
        return (state, wanted._replace(leader=leader)) if leader is not None else None

    async def _deposed(self, term: Manager, state: ShardState) -> ShardState:
        """The record without a leader, under an epoch of its own."""
        if state.leader != NOBODY:
            epoch = await self._coordinator.next_epoch(above=state.epoch)
            after = msgspec.structs.replace(state, leader=NOBODY, epoch=epoch)
            state = await self._coordinator.change_shard(state, after, under=term)
            self._office.take_state(state)
        return state

    async def _ask_standing(self, node: int, epoch: int) -> Vote:
        if node == self._office.node:
            return await self._office.stand(epoch)
        asked = msgspec.msgpack.encode(VoteRequest(epoch=epoch))
        return msgspec.msgpack.decode(await self._peers.request(node, STAND, asked, ANSWER_S), type=Vote)

    async def _place(
        self, term: Manager, state: ShardState, members: Mapping[int, Described], suspects: frozenset[int]
    ) -> bool:
        """Who keeps the log: one step, if there is one to be taken. True if there was."""
        racks = {node: one.rack for node, one in members.items() if node not in suspects}
        after = next_step(state, racks, self._office.wishes(state, await self._coordinator.drains()))
        if after is not None:
            self._office.take_state(await self._coordinator.change_shard(state, after, under=term))
            _log.info("replicas", extra={"nodes": after.replicas, "were": state.replicas, "in_sync": after.in_sync})
        return after is not None

    async def _suspects(self, state: ShardState) -> frozenset[int]:
        """Those in sync that are dead whatever their sessions say."""
        dead, refused = await self._knocking.knock(node for node in state.in_sync if node != self._office.node)
        if refused:
            self._look_again()  # Probe again soon.
            await asyncio.sleep(PAUSE_S)
        return dead


def is_stale(state: ShardState, known: ShardState) -> bool:
    """True if the coordinator has an older record than this node has seen: it was restored from a backup."""
    return state.revision < known.revision or state.epoch < known.epoch

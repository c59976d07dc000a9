"""The controller of a replication group: the one node that elects leaders and places replicas.

    every look    replicas in sync whose machine refuses connections are dead, whatever their sessions say
                  a leader without a session that answers all the same stays leader: it registers again, or transfers
                  the leadership to a replica that has everything it acknowledged
                  `election.decide` and `reassignment.next_step` compute the next record; it is written under the term
    an election   the old leader is deposed on record, then every candidate votes (`candidates`), and the one with the
                  most complete log leads. While a candidate that may have more is silent none is elected
    no record     it is rebuilt from the logs if that can be proven (`record_recovery`)

Nothing is safe because of the controller: the record is changed by compare-and-set alone.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from typing import Final, NamedTuple, Protocol, final

import msgspec

from longhall.broker.feature_gates import ACKNOWLEDGE_LEVEL
from longhall.broker.leadership import NOBODY
from longhall.cluster.membership.candidates import ANSWER_S, VOTE, Vote, VoteRequest, most_complete
from longhall.cluster.membership.copy_report import LEADER
from longhall.cluster.membership.election import UNCLEAN, NextRecord, decide
from longhall.cluster.membership.liveness_probe import LivenessProbe
from longhall.cluster.membership.metadata import ClusterMetadata, is_stale
from longhall.cluster.membership.reassignment import next_step
from longhall.cluster.membership.record_recovery import RecordRecovery
from longhall.cluster.replication.leadership_transfer import PATIENCE_S as TRANSFER_S
from longhall.cluster.rpc.peers import Peers
from longhall.coordination.ports import Coordinator, Manager, ShardState
from longhall.coordination.ports import MemberDescription as Described
from longhall.errors import LonghallError
from longhall.names import CATALOGUE_SHARD

TRANSFER: Final = "transfer-leadership"
GRACE_S: Final = 3.0  # For a live leader to register again.
GRACE_S_MAX: Final = 20.0  # For it to transfer the leadership; then the most complete of the other replicas leads.
PAUSE_S: Final = 0.2
PROBE_S: Final = 0.5  # A leader that does not answer within this time does not stay leader.

_log = logging.getLogger("longhall.controller")


class ControllerNode(Protocol):
    """What the controller needs of the node that it runs on."""

    metadata: ClusterMetadata

    def take_state(self, state: ShardState) -> None:
        """This is the record now."""

    async def vote(self, epoch: int) -> Vote:
        """The vote of this node itself."""


class MissingSession(NamedTuple):
    """The leader of this epoch leads and has no session: since when, and when the controller last saw that. One that
    has not looked for a while does not know for how long.
    """

    epoch: int
    since_s: float
    seen_s: float


@final
class Controller:
    """The controller's work on one node. `look_again` asks for another look soon."""

    def __init__(
        self,
        node: ControllerNode,
        coordinator: Coordinator,
        peers: Peers,
        probe: LivenessProbe,
        recovery: RecordRecovery,
        look_again: Callable[[], None],
    ) -> None:
        self._node = node
        self._metadata = node.metadata
        self._coordinator = coordinator
        self._peers = peers
        self._probe = probe
        self._recovery = recovery
        self._look_again = look_again
        self._loop = asyncio.get_running_loop()
        self._missing: MissingSession | None = None  # A leader that lives and has no session.
        # What was logged of an election that waits: the in-sync set, and the live, dead and unclean nodes.
        self._waits: tuple[tuple[int, ...], frozenset[int], frozenset[int], frozenset[int]] | None = None

    async def look(self, term: Manager) -> bool:
        """Look at the cluster once and take one step, if there is one to be taken. False if there was none."""
        known = self._metadata.state
        # A machine that is gone answers no probe, which takes a moment: the live nodes are read afterwards.
        suspects = await self._suspects(known)
        state = await self._coordinator.shard(CATALOGUE_SHARD)
        if state is None or is_stale(state, known):
            await self._recover(state)
            return True
        self._node.take_state(state)
        members = await self._coordinator.members()
        joined = {number: one for number, one in members.items() if not one.halted}
        alive = frozenset(joined) | await self._living_leader(state, joined, suspects)
        unfit = frozenset(number for number, one in joined.items() if one.unfit)
        unclean = frozenset(number for number, one in joined.items() if one.unfit == UNCLEAN)
        in_sync_min = self._metadata.in_sync_min
        change = decide(state, alive, suspects, unfit, unclean, in_sync_min)
        if await self._is_contradicted(state, members):
            await self._recover(state)
            return True
        if change is None:
            self._note_wait(state, alive, suspects, unclean)
            return await self._place(term, state, joined, suspects)
        await self._change(term, state, change)
        return True

    def _note_wait(
        self, state: ShardState, alive: frozenset[int], suspects: frozenset[int], unclean: frozenset[int]
    ) -> None:
        """Log once why no leader is elected, although the one on record is gone."""
        waits = (state.in_sync, alive, suspects, unclean) if state.leader not in alive - suspects else None
        if waits is not None and waits != self._waits:
            details = {"in_sync": sorted(state.in_sync), "alive": sorted(alive), "refuse_connections": sorted(suspects)}
            details["stopped_uncleanly"] = sorted(unclean)
            _log.warning("the election waits for replicas in sync", extra=details)
        self._waits = waits

    async def _is_contradicted(self, state: ShardState, members: Mapping[int, Described]) -> bool:
        """True if a node that is fenced has seen a later record, or has entries of a later epoch: nothing is changed
        under this one.
        """
        halted = [node for node, one in members.items() if one.halted]
        for report in await asyncio.gather(*(self._recovery.ask(node) for node in halted)):
            if report is not None and (report.revision > state.revision or report.epoch > state.epoch):
                return True
        return False

    async def recover_lost(self) -> bool:
        """Rebuild the record if it is gone, or older than this node knows, whichever node is controller: the controller
        may not have seen the newer one. True if it still is.
        """
        state = await self._coordinator.shard(CATALOGUE_SHARD)
        if state is not None and not is_stale(state, self._metadata.state):
            return False
        await self._recover(state)
        return True

    async def _recover(self, stale: ShardState | None) -> None:
        record = await self._recovery.attempt(stale)
        if record is not None:
            self._node.take_state(record)
        else:
            await asyncio.sleep(PAUSE_S)

    async def _living_leader(
        self, state: ShardState, members: Mapping[int, Described], suspects: frozenset[int]
    ) -> frozenset[int]:
        """The leader, if it has no session and leads all the same: what it alone has acknowledged stays."""
        leader = state.leader
        if leader in (NOBODY, self._metadata.node) or leader in members or leader in suspects:
            self._missing = None
            return frozenset()
        report = await self._recovery.ask(leader, PROBE_S) if leader in self._probe.reached else None
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
        change = decide(state, frozenset(members), suspects)
        if change is None or not change.elects:
            return False
        try:
            asked = b"%d" % change.leader
            await self._peers.request(state.leader, TRANSFER, asked, TRANSFER_S + ANSWER_S)
        except (OSError, TimeoutError, LonghallError) as error:
            _log.info("the leader did not transfer its leadership", extra={"reason": str(error)})
            return False
        return True

    async def _change(self, term: Manager, state: ShardState, change: NextRecord) -> None:
        if change.elects and self._metadata.level >= ACKNOWLEDGE_LEVEL:
            compared = await self._compare_candidates(term, state, change)
            if compared is None:
                await asyncio.sleep(PAUSE_S)
                self._look_again()
                return
            state, change = compared
        epoch = await self._coordinator.next_epoch(above=state.epoch) if change.elects else state.epoch
        after = msgspec.structs.replace(state, leader=change.leader, in_sync=change.in_sync, epoch=epoch)
        self._node.take_state(await self._coordinator.change_shard(state, after, under=term))
        if change.elects:
            details = {"leader": change.leader, "epoch": epoch, "in_sync": change.in_sync, "was": state.leader}
            _log.info("a leader was elected", extra=details)

    async def _compare_candidates(
        self, term: Manager, state: ShardState, change: NextRecord
    ) -> tuple[ShardState, NextRecord] | None:
        """The record with the old leader deposed, and the change with the most complete candidate as leader; None while
        too few candidates vote.
        """
        candidates = [change.leader, *(node for node in change.in_sync if node not in (change.leader, state.leader))]
        state, noted = await asyncio.gather(self._deposed(term, state), self._coordinator.progress())
        committed = (noted.epoch, noted.index) if noted.epoch > state.unclean_epoch else (0, 0)
        leader = await most_complete(self._ask_vote, candidates, state.epoch, len(state.in_sync), committed)
        return (state, change._replace(leader=leader)) if leader is not None else None

    async def _deposed(self, term: Manager, state: ShardState) -> ShardState:
        """The record without a leader, under an epoch of its own."""
        if state.leader != NOBODY:
            epoch = await self._coordinator.next_epoch(above=state.epoch)
            after = msgspec.structs.replace(state, leader=NOBODY, epoch=epoch)
            state = await self._coordinator.change_shard(state, after, under=term)
            self._node.take_state(state)
        return state

    async def _ask_vote(self, node: int, epoch: int) -> Vote:
        if node == self._metadata.node:
            return await self._node.vote(epoch)
        asked = msgspec.msgpack.encode(VoteRequest(epoch=epoch))
        return msgspec.msgpack.decode(await self._peers.request(node, VOTE, asked, ANSWER_S), type=Vote)

    async def _place(
        self, term: Manager, state: ShardState, members: Mapping[int, Described], suspects: frozenset[int]
    ) -> bool:
        """Take one step of a reassignment of replicas, if there is one to be taken. True if there was."""
        racks = {node: one.rack for node, one in members.items() if node not in suspects}
        after = next_step(state, racks, self._metadata.goals(state, await self._coordinator.drains(), members))
        if after is not None:
            self._node.take_state(await self._coordinator.change_shard(state, after, under=term))
            _log.info("replicas", extra={"nodes": after.replicas, "were": state.replicas, "in_sync": after.in_sync})
        return after is not None

    async def _suspects(self, state: ShardState) -> frozenset[int]:
        """The replicas in sync that are dead, whatever their sessions say."""
        dead, refused = await self._probe.probe(node for node in state.in_sync if node != self._metadata.node)
        if refused:
            self._look_again()  # Probe again soon.
            await asyncio.sleep(PAUSE_S)
        return dead

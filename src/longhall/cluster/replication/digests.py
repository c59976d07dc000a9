"""Comparison of the states of replicas: marks in the log, digests at each of them, votes, and verdicts.

    leader      appends a mark (`StateMarked`) for one slice of the state after another, and digests it at once
    follower    digests the slice when it applies the mark, and reports the digests to the leader
    vote        of the replicas that were in sync when the mark was appended; complete, or over after `VOTE_S`
    verdict     by majority of those voters (`judge`)

    voters agree                    nothing happens
    a follower is in the minority   it leaves the in-sync set, and the leader refuses it until it has done a full sync
    the leader is in the minority   it becomes unfit, another node leads, and it does a full sync from that one
    no majority                     an alarm: an operator has to find out which copy is right

A round over all slices begins every `interval_ms` if the log has moved since the last one began. With two replicas
there is never a majority against one of them.
"""

from __future__ import annotations

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Callable, Coroutine, Mapping
from typing import Final, NamedTuple, final

import msgspec

from longhall.broker.events import StateMarked, encoder
from longhall.broker.feature_gates import REPLICAS_LEVEL
from longhall.broker.hall import EVENT_ROOM_BYTES, Hall
from longhall.broker.state_digest import (
    FORM,
    Digests,
    Tables,
    differing,
    differs,
    digest_slice,
    fold,
    pass_mark,
    slices_of,
)
from longhall.cluster.rpc.peers import Peers
from longhall.cluster.rpc.wire import decode
from longhall.errors import Code, LonghallError
from longhall.names import CATALOGUE_SHARD
from longhall.shards.commit_tracker import CommitTracker
from longhall.shards.replica import Replica
from longhall.shards.shard import SHARD

REPORT: Final = "digest-report"
DETAIL: Final = "digest-detail"
ANSWER_S: Final = 10.0
NAMING_S: Final = 2.0  # For the names of the objects that differ: a verdict does not wait longer for them.
VOTE_S: Final = 10.0  # After that the replicas that have not reported do not count.
VOTES_MAX: Final = 64  # Open votes; the oldest is dropped for the next.
MARKS_RETAINED_MAX: Final = 8  # Marks whose digests of single objects stay in memory.
MARK_MS_MIN: Final = 250  # Between two marks of a round.
NAMES_MAX: Final = 16  # Names of differing objects in a message.

_log = logging.getLogger("longhall.digests")


class DigestReport(msgspec.Struct, kw_only=True):
    """The digests of a follower at a mark."""

    epoch: int
    index: int
    form: int  # Of the digests: see `broker.state_digest`.
    digests: Digests


class DigestDetail(msgspec.Struct, kw_only=True):
    """The leader asks for the digests of the single objects of a table."""

    index: int
    table: str


class Verdict(NamedTuple):
    """The nodes in the minority, each with the tables that differ; `decided` is False if there is no majority."""

    divergent: dict[int, list[str]]
    decided: bool


def judge(reports: Mapping[int, Digests], voters: int) -> Verdict:
    """The verdict over reports by node, if `voters` nodes could have voted."""
    tables = sorted({table for digests in reports.values() for table in digests})
    divergent: dict[int, list[str]] = {}
    decided = True
    for table in tables:
        groups: dict[tuple[int, int], list[int]] = {}
        for node, digests in reports.items():
            if table in digests:
                covers, digest = digests[table]
                groups.setdefault((covers, digest), []).append(node)
        covered: dict[int, list[list[int]]] = {}
        for (covers, _), nodes in groups.items():
            covered.setdefault(covers, []).append(nodes)
        for sides in covered.values():
            if len(sides) < 2:
                continue
            most = max(sides, key=len)
            decided &= 2 * len(most) > voters
            for nodes in sides:
                for node in nodes if nodes is not most else ():
                    divergent.setdefault(node, []).append(table)
    return Verdict(divergent, decided)


@final
class _Vote:
    """The vote at one mark: the voters, and the digests that they reported."""

    def __init__(self, voters: frozenset[int], node: int, digests: Digests) -> None:
        self.voters = voters
        self.reports: dict[int, Digests] = {node: digests}
        self.timer: asyncio.TimerHandle | None = None

    @property
    def is_complete(self) -> bool:
        return self.voters <= self.reports.keys()


@final
class Comparison:
    """The comparisons of one replica, as leader and as follower. `on_divergent` is called with the node whose state
    differs, which may be this one, and the difference.
    """

    def __init__(
        self,
        hall: Hall,
        replica: Replica,
        peers: Peers,
        leading: Callable[[], CommitTracker | None],
        on_divergent: Callable[[int, str], None],
        interval_ms: int,
    ) -> None:
        self.uncommitted: frozenset[int] = frozenset()  # Nodes that differ without a majority against any of them.
        self.failures = 0  # Digests that could not be computed.
        self.compared = 0  # Votes that are closed.
        self._hall = hall
        self._replica = replica
        self._peers = peers
        self._leading = leading
        self._on_divergent = on_divergent
        self._interval_ms = interval_ms
        self._votes: OrderedDict[int, _Vote] = OrderedDict()  # By the index of the mark.
        self._digests: OrderedDict[int, Tables] = OrderedDict()
        self._slice = 0
        self._slices = 0
        self._round_index = 0  # Where the log ended when the last round had ended.
        self._round_in_sync: frozenset[int] = frozenset()  # The in-sync set when that round began.
        self._next_ms = hall.world.clock.monotonic_ms() + interval_ms
        self._tasks: set[asyncio.Task[None]] = set()
        self._ended = False
        self._loop = asyncio.get_running_loop()
        peers.serve(REPORT, self._reported)
        peers.serve(DETAIL, self._detailed)

    def stop(self) -> None:
        """End every vote and every report."""
        self._ended = True
        for vote in self._votes.values():
            if vote.timer is not None:
                vote.timer.cancel()
        for task in list(self._tasks):
            task.cancel()

    # Leader

    def tick(self) -> None:
        """Append the next mark if one is due. Call it regularly while this node leads and serves."""
        hall = self._hall
        now_ms = hall.world.clock.monotonic_ms()
        leading = self._leading()
        if leading is None or now_ms < self._next_ms or hall.feature_level < REPLICAS_LEVEL:
            return
        if self._slice == 0:
            # A replica that joined the in-sync set after the last round began is compared, though nothing was written.
            if (self._replica.index, leading.in_sync) == (self._round_index, self._round_in_sync):
                return
            self._slices = slices_of(hall)
        if not hall.has_room(EVENT_ROOM_BYTES):
            return
        if self._slice == 0:
            self._round_in_sync = leading.in_sync
        self._next_ms = now_ms + max(self._interval_ms // self._slices, min(MARK_MS_MIN, self._interval_ms))
        self._mark(leading, StateMarked(slice=self._slice, slices=self._slices))
        self._slice = (self._slice + 1) % self._slices
        if self._slice == 0:
            self._round_index = self._replica.index

    def _mark(self, leading: CommitTracker, mark: StateMarked) -> None:
        hall = self._hall
        shard = hall.shards[CATALOGUE_SHARD]
        shard.append_event(SHARD, encoder.encode(mark))
        hall.journal.touch(shard, True)
        hall.commits.kick()
        index = self._replica.index
        vote = _Vote(leading.in_sync, leading.node, self._digest(index, mark))
        self._votes[index] = vote
        if len(self._votes) > VOTES_MAX:
            oldest = self._votes.popitem(last=False)[1]
            if oldest.timer is not None:
                oldest.timer.cancel()
        vote.timer = self._loop.call_later(VOTE_S, self._close, index)

    async def _reported(self, node: int, body: bytes) -> bytes:
        """A follower has applied a mark."""
        report = decode(body, DigestReport)
        leading = self._leading()
        vote = self._votes.get(report.index)
        known = leading is not None and (report.epoch, report.form) == (leading.epoch, FORM)
        if known and vote is not None and node in vote.voters:
            vote.reports[node] = report.digests
            if vote.is_complete:
                self._close(report.index)
        return b""

    def _close(self, index: int) -> None:
        vote = self._votes.pop(index, None)
        leading = self._leading()
        if vote is None or leading is None or self._ended:
            return
        if vote.timer is not None:
            vote.timer.cancel()
        self.compared += 1
        verdict = judge(vote.reports, len(vote.voters))
        if verdict.divergent:
            self._start(self._announce(leading, index, vote, verdict))
        elif vote.is_complete:
            self.uncommitted = frozenset()

    async def _announce(self, leading: CommitTracker, index: int, vote: _Vote, verdict: Verdict) -> None:
        named: dict[int, str] = dict.fromkeys(verdict.divergent, "")
        try:
            async with asyncio.timeout(NAMING_S):
                for node in named:
                    named[node] = await self._name(index, leading.node, node, vote)
        except TimeoutError:
            _log.debug("what differs could not be named in time", extra={"index": index})
        if self._leading() is not leading or self._ended:
            return
        if not verdict.decided:
            self.uncommitted = frozenset(vote.reports)
            details = {"index": index, "nodes": sorted(vote.reports), "differences": sorted(set(named.values()))}
            _log.error("replicas differ, and none has a majority: compare them with longhall doctor", extra=details)
            return
        for node, words in named.items():
            details = {"index": index, "node": node, "differences": words or ", ".join(verdict.divergent[node])}
            _log.error("the state of a replica is not the majority's: it is repaired", extra=details)
            self._on_divergent(node, f"at entry {index} it differs from the majority in {details['differences']}")

    async def _name(self, index: int, here: int, node: int, vote: _Vote) -> str:
        """The objects that differ, in words. For this node itself, a voter that disagrees with it is asked."""
        own = vote.reports[here]
        others = [other for other in vote.reports if differs(own, vote.reports[other])]
        asked = node if node != here else others[0] if others else 0
        names: list[str] = []
        for table in differs(own, vote.reports[asked]) if asked in vote.reports else ():
            try:
                body = msgspec.msgpack.encode(DigestDetail(index=index, table=table))
                answer = await self._peers.request(asked, DETAIL, body, ANSWER_S)
                there = decode(answer, dict[str, int])
                objects = differing(self._digests.get(index, {}).get(table, {}), there)
            except (OSError, TimeoutError, LonghallError):
                objects = []
            names.append(f"{table} {', '.join(objects[:NAMES_MAX])}" if objects else table)
        return "; ".join(names)

    # Leader and follower

    def _digest(self, index: int, mark: StateMarked) -> Digests:
        """The digests at a mark; empty if they cannot be computed. A bug here must not stop a good replica."""
        try:
            tables = self._digests[index] = digest_slice(self._hall, mark)
        except Exception:
            self.failures += 1
            _log.exception("the state could not be digested", extra={"index": index})
            pass_mark(self._hall, mark)
            return {}
        if len(self._digests) > MARKS_RETAINED_MAX:
            self._digests.popitem(last=False)
        return fold(tables)

    async def _detailed(self, node: int, body: bytes) -> bytes:
        detail = decode(body, DigestDetail)
        tables = self._digests.get(detail.index)
        if tables is None:
            raise LonghallError(Code.NOT_READY, "the digests of this mark are no longer in memory")
        return msgspec.msgpack.encode(tables.get(detail.table, {}))

    def _start(self, work: Coroutine[None, None, None]) -> None:
        task = self._loop.create_task(work, name="digests")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    # Follower

    def applied(self, mark: StateMarked, leader: int, epoch: int) -> None:
        """A mark is being applied here: digest its slice, and report the digests to the leader."""
        index = self._replica.applied + 1
        digests = self._digest(index, mark)
        if leader and leader != self._peers.node and not self._ended:
            self._start(self._report(leader, DigestReport(epoch=epoch, index=index, form=FORM, digests=digests)))

    async def _report(self, leader: int, report: DigestReport) -> None:
        try:
            await self._peers.request(leader, REPORT, msgspec.msgpack.encode(report), ANSWER_S)
        except (OSError, TimeoutError, LonghallError) as error:
            _log.debug("digests could not be reported", extra={"leader": leader, "reason": str(error)})

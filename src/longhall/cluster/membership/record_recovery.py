"""Recovery of the record: it is rebuilt from the logs if the coordinator lost it, or was restored from an old backup.

    reports     every registered node is asked for a report of its copy; `record_proof` decides whether they are enough
    promises    unless a leader goes on, every node that answered promises to accept nothing from leaders of earlier
                epochs, and a leader among them steps down; the proof is made again from the logs after the promises. A
                node promises only if it sees itself that the coordinator has no record, or a stale one, so that no
                other node can depose a leader
    record      written by compare-and-set, so that one of several nodes that try at once succeeds

The data beside the record (the cluster's id, its feature level, drained nodes, wings, numbers that were given) is
restored from the reports first: a node that sees the record finds the rest.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from typing import Final, NamedTuple, Protocol, final

import msgspec

from longhall.cluster.membership.copy_report import (
    ANSWER_S,
    PROMISE,
    REPORT,
    CopyReport,
    ask_report,
    decode_report,
    encode_report,
)
from longhall.cluster.membership.record_proof import Loss, RecordProof, force, losses, most_complete, prove, unreported
from longhall.cluster.rpc.peers import Peers
from longhall.coordination.ports import (
    ABSENT,
    NOBODY,
    Conflict,
    CoordinationError,
    Coordinator,
    Ids,
    ReplicationGroup,
    ShardState,
)
from longhall.errors import Code, LonghallError
from longhall.names import CATALOGUE_SHARD

_log = logging.getLogger("longhall.recovery")

ADVICE: Final = "`longhall cluster recover` shows the copies and what can be done"


class RecoveryPlan(NamedTuple):
    """What an operator can do about a lost record."""

    record: ShardState | None  # As the coordinator has it.
    reports: Mapping[int, CopyReport]
    proof: RecordProof
    chosen: int  # The node that would lead if an operator forces it; 0 if there is none.
    unheard: tuple[int, ...]  # Nodes that a log notes as replicas and that did not report.
    losses: list[Loss]  # Entries of other copies that the chosen one lacks.


class Copy(Protocol):
    """The copy of the log that this node has."""

    def report(self) -> CopyReport:
        """The report of the copy."""

    def promise(self, epoch: int) -> CopyReport:
        """Accept nothing from leaders of earlier epochs from now on; a leader steps down. Returns the report then.
        LonghallError if that cannot be promised.
        """

    def doubts(self, state: ShardState) -> bool:
        """True if the record is older than what this node has seen."""


@final
class RecordRecovery:
    """The recovery at one node. `copy` is this node's; `more` are the fields of the record that are not known here."""

    def __init__(
        self,
        coordinator: Coordinator,
        peers: Peers,
        hall_id: str,
        copy: Copy,
        more: Mapping[str, object],
    ) -> None:
        self._coordinator = coordinator
        self._peers = peers
        self._hall_id = hall_id
        self._copy = copy
        self._more = dict(more)
        self._logged_reason = ""
        peers.serve(REPORT, self._answer)
        peers.serve(PROMISE, self._promise)

    async def _answer(self, node: int, asked: bytes) -> bytes:
        return encode_report(self._copy.report())

    async def _promise(self, node: int, asked: bytes) -> bytes:
        try:
            state = await self._coordinator.shard(CATALOGUE_SHARD)
        except CoordinationError as error:
            raise LonghallError(Code.NOT_READY, f"the record cannot be read: {error}") from None
        if state is not None and not self._copy.doubts(state) and not await self._is_doubted_by(node, state):
            raise LonghallError(Code.INVALID_REQUEST, "the coordinator has a record of the cluster")
        return encode_report(self._copy.promise(int(asked)))

    async def _is_doubted_by(self, node: int, state: ShardState) -> bool:
        """True if that node has seen a later record than this one, or has entries of a later epoch."""
        report = await self.ask(node)
        return report is not None and (report.revision > state.revision or report.epoch > state.epoch)

    async def reports(self) -> dict[int, CopyReport]:
        """The reports of all registered nodes that answer, this one included."""
        members = await self._coordinator.members()
        others = [node for node in members if node != self._peers.node]
        answers = await asyncio.gather(*(self.ask(node) for node in others))
        found = {node: answer for node, answer in zip(others, answers, strict=True) if answer is not None}
        return {**found, self._peers.node: self._copy.report()}

    async def ask(self, node: int, timeout_s: float = ANSWER_S) -> CopyReport | None:
        """The report of one node; None if it does not answer."""
        return await ask_report(self._peers, node, timeout_s)

    async def attempt(self, stale: ShardState | None) -> ShardState | None:
        """Write the record if it can be proven, and return it. CoordinationError if the coordinator does not answer;
        Conflict if another node was first.
        """
        reports = await self.reports()
        proof = prove(reports, stale)
        if proof.record is None:
            if proof.reason != self._logged_reason:
                self._logged_reason = proof.reason
                _log.error("the record of the cluster cannot be rebuilt yet: %s; %s", proof.reason, ADVICE)
            return None
        if proof.record.leader == NOBODY:
            reports = await self._promises(reports, proof.record.epoch)
            proof = prove(reports, stale)
        if proof.record is None:
            _log.info("a node that answered did not promise", extra={"reason": proof.reason})
            return None
        return await self._write(proof.record, stale, reports)

    async def _promises(self, reports: Mapping[int, CopyReport], epoch: int) -> dict[int, CopyReport]:
        """The reports of the nodes that promise to accept nothing from leaders before this epoch, after they did."""
        nodes = [node for node, one in reports.items() if one.intact]
        found: dict[int, CopyReport] = {}
        for node in nodes:
            try:
                if node == self._peers.node:
                    found[node] = self._copy.promise(epoch)
                else:
                    answer = await self._peers.request(node, PROMISE, b"%d" % epoch, ANSWER_S)
                    found[node] = decode_report(answer)
            except (OSError, TimeoutError, LonghallError, msgspec.DecodeError) as error:
                _log.info("a node does not promise", extra={"node": node, "reason": str(error)})
        return found

    async def plan(self, chosen: int = 0) -> RecoveryPlan:
        """The plan, without carrying it out."""
        record = await self._coordinator.shard(CATALOGUE_SHARD)
        reports = await self.reports()
        best = most_complete(reports)
        chosen = chosen or (best.node if best is not None else 0)
        if chosen and (chosen not in reports or not reports[chosen].intact):
            raise LonghallError(Code.INVALID_CONFIGURATION, f"node {chosen} does not answer with an intact copy")
        lost = losses(reports, chosen) if chosen else []
        return RecoveryPlan(record, reports, prove(reports, record), chosen, unreported(reports), lost)

    async def force(self, chosen: int) -> ShardState:
        """Let this node lead by an operator's decision, though other nodes may have more entries."""
        plan = await self.plan(chosen)
        details = {"node": chosen, "losses": plan.losses, "unheard": plan.unheard}
        _log.warning("an operator chose the copy that the cluster goes on with", extra=details)
        return await self._write(force(plan.reports, plan.record, chosen), plan.record, plan.reports)

    async def _write(
        self, record: ShardState, stale: ShardState | None, reports: Mapping[int, CopyReport]
    ) -> ShardState:
        coordinator = self._coordinator
        await coordinator.prepare()
        known = await coordinator.cluster_id(self._hall_id)
        if known != self._hall_id:
            raise LonghallError(
                Code.INVALID_CONFIGURATION,
                f"the coordinator keeps another hall by now ({known}), made by an empty node: stop that node, remove "
                "its record from the coordinator, and start again",
            )
        await self._restore_metadata(reports)
        if stale is None:
            record = msgspec.structs.replace(record, more=self._more)
        written = await coordinator.change_shard(stale, record)
        details = {
            "leader": record.leader,
            "epoch": record.epoch,
            "in_sync": record.in_sync,
            "replicas": record.replicas,
        }
        _log.warning("the record of the cluster was rebuilt from the logs", extra=details)
        self._logged_reason = ""
        return written

    async def _restore_metadata(self, reports: Mapping[int, CopyReport]) -> None:
        coordinator = self._coordinator
        level = max(one.level for one in reports.values())
        noted = await coordinator.feature_level()
        if noted.version == ABSENT or noted.level < level:
            await coordinator.change_feature_level(noted, level)
        for node in {node for one in reports.values() for node in one.drains}:
            await coordinator.mark_drain(node)
        await coordinator.take_ids(Ids.NODES, 1, first_min=_highest_node(reports) + 1)
        await self._restore_wings(reports)

    async def _restore_wings(self, reports: Mapping[int, CopyReport]) -> None:
        wings: dict[str, ReplicationGroup] = {}
        for one in sorted(reports.values(), key=lambda one: (one.rebuilt, one.epoch, one.index)):
            wings.update({wing.name: wing for wing in one.wings})  # The most complete node comes last, and counts.
        existing = await self._coordinator.wings()
        for name, wing in wings.items():
            if name not in existing:
                try:
                    await self._coordinator.change_wing(None, msgspec.structs.replace(wing, version=ABSENT))
                except Conflict:
                    continue  # Another node restores them, too.
        if wings:
            first = max(wing.number for wing in wings.values()) + 1
            await self._coordinator.take_ids(Ids.WINGS, 1, first_min=first)


def _highest_node(reports: Mapping[int, CopyReport]) -> int:
    return max(node for one in reports.values() for node in (one.node, *one.replicas))

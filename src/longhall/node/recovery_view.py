"""Recovery of the record for the HTTP API: what can be recovered, and the recovery itself."""

from __future__ import annotations

from typing import final

from longhall.cluster.membership.record_recovery import RecordRecovery, RecoveryPlan
from longhall.console.api.recovery import CopyView, RecoveryView
from longhall.coordination.ports import NOBODY, CoordinationError
from longhall.errors import Code, LonghallError


@final
class NodeRecovery:
    """Fulfils `console.api.recovery.Recovery`."""

    def __init__(self, recovery: RecordRecovery) -> None:
        self._recovery = recovery

    async def view(self, unclean: int) -> RecoveryView:
        try:
            return _view(await self._recovery.plan(unclean))
        except CoordinationError as error:
            raise LonghallError(Code.NOT_READY, f"the coordinator does not answer: {error}") from None

    async def recover(self, unclean: int) -> RecoveryView:
        view = await self.view(unclean)
        if unclean == 0 and view.record == "fine":
            raise LonghallError(Code.INVALID_CONFIGURATION, "the record is fine: there is nothing to rebuild")
        if unclean == 0 and not view.provable:
            raise LonghallError(
                Code.INVALID_CONFIGURATION,
                f"the record cannot be rebuilt safely: {view.reason}; start these nodes, or name the node whose copy "
                "the cluster continues with (--unclean NODE)",
            )
        if unclean and _somebody_leads(view):
            raise LonghallError(
                Code.INVALID_CONFIGURATION,
                f"node {view.leader} leads: an unclean election is only for clusters without a leader",
            )
        try:
            if unclean:
                await self._recovery.force(unclean)
            else:
                plan = await self._recovery.plan()
                await self._recovery.attempt(plan.record)
        except CoordinationError as error:
            raise LonghallError(Code.NOT_READY, f"the coordinator does not answer: {error}") from None
        view.done = True
        return view


def _somebody_leads(view: RecoveryView) -> bool:
    return any(copy.role == "leader" and copy.node == view.leader and copy.epoch == view.epoch for copy in view.copies)


def _view(plan: RecoveryPlan) -> RecoveryView:
    state = plan.record
    newest = max((one.epoch for one in plan.reports.values() if one.intact), default=0)
    seen = max((one.rebuilt for one in plan.reports.values()), default=0)
    if state is None:
        record = "absent"
    else:
        record = "stale" if state.epoch < newest or state.rebuilt < seen else "fine"
    lost = {one.node: one for one in plan.losses}
    return RecoveryView(
        record=record,
        leader=state.leader if state is not None else NOBODY,
        epoch=state.epoch if state is not None else 0,
        copies=[
            CopyView(
                node=node,
                role=one.role,
                intact=one.intact,
                epoch=one.epoch,
                index=one.index,
                committed=one.committed,
                replicas=one.replicas,
                reason=one.reason,
                lost_entries=lost[node].entries if node in lost else 0,
                lost_committed=lost[node].committed if node in lost else 0,
            )
            for node, one in sorted(plan.reports.items())
        ],
        missing=list(plan.unheard),
        provable=plan.proof.record is not None,
        reason=plan.proof.reason,
        chosen=plan.chosen,
    )

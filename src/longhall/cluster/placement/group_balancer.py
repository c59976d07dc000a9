"""The balancer: the leader of the hall moves the leadership of groups from busy hosts to idle ones.

A move only changes which host a group prefers as its leader. The reconciler and the group then do the rest as for a
host that joins: the host gets a replica if it has none, catches up, and the leader transfers its leadership; clients go
on meanwhile. So a move that is interrupted is continued, and the next plan takes its result into account.

Without `automatic` only an operator's request moves groups. Automatic moves are slow on purpose: a plan has to hold for
a while, and one group moves at a time.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Final, final

import msgspec

from longhall.broker.hall import Hall
from longhall.cluster.placement.balance_rules import GroupMove, plan_balance
from longhall.cluster.placement.group_reconciler import GroupReconciler
from longhall.cluster.placement.partition_balancer import PartitionBalancer, PlannedMove
from longhall.coordination.ports import CoordinationError
from longhall.errors import Code, LonghallError

LOOK_S: Final = 10.0
CALM_S: Final = 60.0  # So long hosts have to be unbalanced, and so long no other group was moved.

_log = logging.getLogger("longhall.wings")


class BalancePlan(msgspec.Struct, kw_only=True):
    """The moves of groups that balance the hosts, those of partitions that balance the groups, and whether they have
    begun.
    """

    moves: list[GroupMove]
    begun: bool
    partitions: list[PlannedMove] = []


@final
class GroupBalancer:
    """The plan of moves at the leader of the hall, and the task that carries it out by itself."""

    def __init__(self, hall: Hall, groups: GroupReconciler, partitions: PartitionBalancer, *, automatic: bool) -> None:
        self._hall = hall
        self._partitions = partitions
        self._groups = groups
        self._automatic = automatic
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begin to move groups while this node leads, if that is automatic."""
        self._partitions.start()
        if self._automatic:
            self._task = self._hall.background.start("balance groups", self._balance_always)

    def close(self) -> None:
        self._partitions.close()
        if self._task is not None:
            self._task.cancel()

    async def balance(self, *, dry_run: bool) -> BalancePlan:
        """The plan; without `dry_run` all its moves begin. NOT_READY if the coordinator does not answer."""
        moves = self._plan()
        if not dry_run:
            for move in moves:
                await self._begin(move)
        partitions = await self._partitions.balance(dry_run=dry_run)
        return BalancePlan(moves=moves, begun=not dry_run and bool(moves or partitions), partitions=partitions)

    def _plan(self) -> list[GroupMove]:
        return plan_balance(self._groups.led_groups(), self._groups.hosts_usable())

    async def _begin(self, move: GroupMove) -> None:
        try:
            await self._groups.prefer(move.group, move.target)
        except CoordinationError as error:
            raise LonghallError(Code.NOT_READY, f"the coordinator did not answer: {error}; try again") from error
        _log.info("a group is moved", extra={"wing": move.group, "from": move.source, "to": move.target})

    async def _balance_always(self) -> None:
        loop = asyncio.get_running_loop()
        since_s = loop.time()
        while True:
            await asyncio.sleep(LOOK_S)
            moves = self._plan() if self._groups.leads and self._groups.may_spread else []
            if not moves or self._groups.is_moving():
                since_s = loop.time()
            elif loop.time() - since_s >= CALM_S:
                since_s = loop.time()
                try:
                    await self._begin(moves[0])
                except LonghallError as error:
                    _log.info("a move has to wait", extra={"reason": str(error)})

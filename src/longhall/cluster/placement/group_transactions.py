"""Transactions over several replication groups: the two sides of the calls between a group and the main hall.

    in the main hall    CoordinatorSide answers whether a partition is part of a transaction
    in a group          GroupSide asks that, appends the markers that the main hall sends, and settles messages

What was appended is in the log of its group, and what was decided is in that of the hall.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Protocol, final

from longhall.broker.feature_gates import may_transact_in_groups
from longhall.broker.hall import Hall
from longhall.broker.pending import Pending
from longhall.broker.transaction_coordinator import TransactionCoordinator
from longhall.broker.transaction_markers import write_markers
from longhall.broker.transaction_participant import TransactionParticipant
from longhall.broker.transaction_verification import PartitionQuestion
from longhall.cluster.placement.transaction_operations import SettleInTransaction, VerifyPartition, WriteMarkers
from longhall.cluster.rpc.operation import NOBODY_IN_PARTICULAR, Caller
from longhall.errors import Code


class MainHall(Protocol):
    """The client of the main hall, as far as a group needs it here."""

    def call(self, operation: VerifyPartition, caller: Caller) -> Pending[Code | None]: ...


@final
class CoordinatorSide:
    """Answers the questions of groups, at the leader of the main hall."""

    def __init__(
        self, hall: Hall, coordinator: TransactionCoordinator, confirm: Callable[[], Awaitable[None]] | None = None
    ) -> None:
        self._hall = hall
        self._coordinator = coordinator
        self._confirm = confirm

    async def verify(self, operation: VerifyPartition) -> Code | None:
        """None if the partition is part of the open transaction. What the answer rests on is committed.

        A deposed leader may not know that the transaction has ended, so the leadership is confirmed first.
        """
        question = operation.question
        if self._confirm is not None:
            await self._confirm()
        leadership = self._hall.leadership
        if leadership is not None and not leadership.leads(self._hall.shard_of(question.transactional_id).number):
            return Code.NOT_READY
        if not may_transact_in_groups(self._hall):
            return Code.INVALID_TRANSACTION_STATE
        partition = self._hall.partition(question.topic, question.partition)
        if partition is None or partition.topic_id != question.topic_id:
            return Code.UNKNOWN_TOPIC
        return await self._coordinator.confirm_partition(
            question.transactional_id,
            question.producer_id,
            question.producer_epoch,
            (question.topic, question.partition),
            joins=question.joins,
        )


@final
class GroupSide:
    """Asks the main hall, and writes its markers, at the leader of another group."""

    def __init__(self, hall: Hall, main: MainHall) -> None:
        self._hall = hall
        self._main = main
        self._participant = TransactionParticipant(hall)

    async def verify(self, question: PartitionQuestion) -> Code | None:
        return await self._main.call(VerifyPartition(question), NOBODY_IN_PARTICULAR)

    async def write(self, operation: WriteMarkers) -> list[Code | None]:
        """Append the markers, and reply when they are committed."""
        return await write_markers(self._hall, operation.markers)

    async def settle(self, operation: SettleInTransaction) -> Code | None:
        """Do a step of the settles of a transaction, and reply when it is committed."""
        return await self._participant.carry_out(operation.request)

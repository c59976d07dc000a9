"""Operations between the coordinator of transactions, in the main hall, and the groups that store their partitions and
queues.
"""

from __future__ import annotations

from longhall.broker.transaction_appends import Appended, TransactionBatch
from longhall.broker.transaction_markers import PartitionMarkers
from longhall.broker.transaction_participant import SettleRequest
from longhall.broker.transaction_verification import PartitionQuestion
from longhall.cluster.rpc.operation import Operation
from longhall.errors import Code


class VerifyPartition(Operation[Code | None]):
    """A group asks the main hall whether a batch belongs to the open transaction of its producer; None if it does."""

    question: PartitionQuestion


class WriteMarkers(Operation[list[Code | None]]):
    """The main hall has a group write markers; None, or the error, for each partition. It may be repeated."""

    markers: PartitionMarkers


class SettleInTransaction(Operation[Code | None]):
    """The main hall has a group do a step of the settles of a transaction; None, or the error. It may be repeated."""

    request: SettleRequest


class AppendInTransaction(Operation[Appended]):
    """The main hall has a group append a batch of a transaction that the main hall itself carries out."""

    batch: TransactionBatch

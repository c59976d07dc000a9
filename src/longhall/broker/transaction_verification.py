"""Batches of transactions for partitions of this group, whose coordinator is in another process (KIP-890).

The first batch of a transaction in a partition waits until the coordinator has confirmed that the partition is part of
the open transaction of this producer id and epoch. Batches of the same producer for the same partition wait behind it,
in the order of their arrival.

    the coordinator says              then
    it is part of the transaction     the batch is appended, unless a marker of the producer came meanwhile: ask again
    the transaction is ending         ask again, until the producer's time is over
    no answer, or no coordinator      ask again, until the producer's time is over; then NOT_ENOUGH_REPLICAS, as Kafka
    anything else                     the batch is refused with it

Why no batch is appended after the end of its transaction: the guard of the producer is read before the coordinator is
asked, the coordinator answers for a moment after the question, and whatever ends the transaction after that moment
writes a marker here, which voids the guard. Between the look at the guard and the append nothing else runs.

A line ends with the process that has it. The next leader of the group asks for itself.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from functools import partial
from typing import Final, Protocol, final

import msgspec

from longhall.broker.hall import Hall
from longhall.broker.partition import Partition
from longhall.broker.produced import ProducedBatch, SendWait, Sent, TransactionVerifier
from longhall.broker.send import admit
from longhall.errors import Code, LonghallError
from longhall.topics.producers import ProducerTable

PRODUCERS_MAX: Final = 4_096  # Lines at the same time: one for each producer and partition.
BATCHES_MAX: Final = 64  # In one line.
WAIT_SHARE: Final = 0.5  # Of the producer's timeout: the answer has to arrive before it gives up.
WAIT_S_MAX: Final = 15.0
PAUSE_S: Final = 0.05  # Before the coordinator is asked again.

_log = logging.getLogger("longhall.transactions")

_NO_PRODUCERS: Final = ProducerTable()
_ASK_AGAIN: Final = (None, Code.CONCURRENT_TRANSACTIONS, Code.NOT_READY)


class PartitionQuestion(msgspec.Struct, frozen=True, array_like=True):
    """Is this partition part of the open transaction of this producer? With `joins` it becomes part of it."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    topic: str
    topic_id: bytes
    partition: int
    joins: bool


class RemoteCoordinator(Protocol):
    """The transaction coordinator, in another process."""

    async def verify(self, question: PartitionQuestion) -> Code | None:
        """None for yes, or the error. It answers for a moment after the call. LonghallError if it does not answer."""


@final
class _Waiting:
    """One batch that waits, and the time when its producer gives up."""

    def __init__(self, batch: ProducedBatch, ends_s: float) -> None:
        self.batch = batch
        self.ends_s = ends_s
        self.wait = SendWait()


@final
class TransactionVerification(TransactionVerifier):
    """The batches that wait for the coordinator, in lines by partition and producer."""

    def __init__(self, hall: Hall, coordinator: RemoteCoordinator) -> None:
        self._hall = hall
        self._coordinator = coordinator
        self._lines: dict[tuple[int, int], deque[_Waiting]] = {}

    def hold(self, batch: ProducedBatch) -> Sent | None:
        """None if the batch need not wait; else its result, which comes later."""
        key = (batch.partition.log.partition, batch.header.producer_id)
        line = self._lines.get(key)
        if line is None and not _must_ask(batch):
            return None
        if batch.transactional_id is None:
            return Sent(Code.INVALID_PRODUCER_MAPPING)
        if line is None:
            if len(self._lines) >= PRODUCERS_MAX:
                return Sent(Code.NOT_ENOUGH_REPLICAS, message="too many transactions begin here at the same time")
            line = self._lines[key] = deque()
            self._hall.background.start("verify transactions", partial(self._serve, key, line))
        elif len(line) >= BATCHES_MAX:
            return Sent(Code.NOT_ENOUGH_REPLICAS, message="too many batches wait for the coordinator")
        batch.frame = batch.frame[batch.at : batch.at + batch.header.size_bytes]  # The request's frame is freed.
        batch.at = 0
        wait_s = min(max(batch.timeout_ms, 0) / 1000 * WAIT_SHARE, WAIT_S_MAX)
        waiting = _Waiting(batch, asyncio.get_running_loop().time() + wait_s)
        line.append(waiting)
        sent = Sent(None)
        sent.later = waiting.wait
        return sent

    async def _serve(self, key: tuple[int, int], line: deque[_Waiting]) -> None:
        """Answer the batches of a line, one after the other, until it is empty."""
        while line:
            waiting = line[0]
            try:
                sent = await self._decide(waiting)
            except LonghallError as error:  # This process leads no more.
                sent = Sent(error.code)
            line.popleft()
            if not line:
                self._lines.pop(key, None)
            if sent.later is not None:  # It waits for room in its queue now, in the order of the line.
                sent.later.when_done(waiting.wait.complete)
            else:
                waiting.wait.complete(sent)

    async def _decide(self, waiting: _Waiting) -> Sent:
        batch = waiting.batch
        partition, header = batch.partition, batch.header
        assert batch.transactional_id is not None, "checked when the line began"
        question = PartitionQuestion(
            batch.transactional_id,
            header.producer_id,
            header.producer_epoch,
            partition.topic,
            partition.topic_id,
            partition.number,
            batch.joins_transaction,
        )
        while True:
            if partition.deleted:
                return Sent(Code.UNKNOWN_TOPIC)
            if not _must_ask(batch):
                return admit(self._hall, batch, self._hall.time.now_ms())
            guard = _table_of(partition).verification_guard(header.producer_id)
            code = await self._ask(question)
            if code is None and guard == _table_of(partition).verification_guard(header.producer_id):
                batch.guard = guard
                return admit(self._hall, batch, self._hall.time.now_ms())
            if code not in _ASK_AGAIN:
                return Sent(code)
            if asyncio.get_running_loop().time() > waiting.ends_s:
                concurrent = code is Code.CONCURRENT_TRANSACTIONS and batch.joins_transaction
                return Sent(Code.CONCURRENT_TRANSACTIONS if concurrent else Code.NOT_ENOUGH_REPLICAS)
            await asyncio.sleep(PAUSE_S)

    async def _ask(self, question: PartitionQuestion) -> Code | None:
        try:
            return await self._coordinator.verify(question)
        except LonghallError as error:
            _log.info("the coordinator of a transaction did not answer", extra={"reason": str(error)})
            return Code.NOT_READY


def _table_of(partition: Partition) -> ProducerTable:
    """The producers of a partition, to read only: replicas do not hear of questions, so none may create a table."""
    return partition.producers if partition.producers is not None else _NO_PRODUCERS


def _must_ask(batch: ProducedBatch) -> bool:
    """True unless the partition itself knows the answer: the transaction is open here, or the batch is a repeat."""
    table = _table_of(batch.partition)
    return table.decide(batch.header) is None and table.needs_verification(batch.header)

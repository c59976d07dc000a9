"""Sends of a step to topics that other replication groups store: batches of the step's transaction.

They are appended when the messages of the step are held and before its outcome is decided. A step that fails later is
aborted, and readers of committed messages never see them. A repeated step finds its messages ended and appends nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, final

from longhall.broker.placement import group_of
from longhall.broker.transaction_appends import Appended, TransactionBatch, append_in_transaction
from longhall.errors import Code, LonghallError
from longhall.queues.envelope import derive_message_id, encode_record
from longhall.queues.messages import Accepted, Outgoing, WriteBack
from longhall.records.batch import build_batch
from longhall.records.partitioner import partition_for

if TYPE_CHECKING:
    from longhall.broker.hall import Hall
    from longhall.broker.partition import Partition
    from longhall.broker.queues.outbox.outbox_delivery import OutboxCarrier


@final
class TopicSend:
    """Messages for one topic, some partitions of which are in other groups. Fulfils `StepBatches`."""

    def __init__(self, hall: Hall, route: list[Partition], send: WriteBack) -> None:
        self._hall = hall
        self._route = route
        self._send = send
        self._answers: list[Accepted] = []

    async def locate(self, carrier: OutboxCarrier | None) -> None:
        """Refuse what the topic does not take."""
        options = self._route[0].options
        if options.is_sealed:
            raise LonghallError(
                Code.SEALED,
                f"topic '{self._send.topic}' is sealed and in another replication group than the settled messages: "
                "write to it in a Kafka transaction",
            )
        for message in self._send.messages:
            if len(message.body) > options.message_bytes_max:
                raise LonghallError(Code.MESSAGE_TOO_LARGE, f"a message may have {options.message_bytes_max} bytes")

    def plan(self) -> None:
        """Nothing is left to refuse: the batches are in their logs."""
        assert len(self._answers) == len(self._send.messages), "a step appends its batches before its outcome"

    def write(self) -> list[Accepted]:
        """The answers, inside the atomic write of the outcome."""
        return self._answers

    async def append(self, transactional_id: str, producer_id: int, producer_epoch: int) -> None:
        """Append a batch to each partition, as part of this transaction."""
        now_ms = self._hall.time.now_ms()
        answers = [Accepted() for _ in self._send.messages]
        rows: dict[int, list[tuple[Outgoing, Accepted]]] = {}
        for turn, (message, accepted) in enumerate(zip(self._send.messages, answers, strict=True)):
            rows.setdefault(self._choose(message, turn), []).append((message, accepted))
        for number, some in rows.items():
            records = [encode_record(message, "", now_ms) for message, _ in some]
            batch = build_batch(
                records, producer_id=producer_id, producer_epoch=producer_epoch, base_sequence=0, transactional=True
            )
            partition = self._route[number]
            request = TransactionBatch(transactional_id, partition.topic, partition.topic_id, number, batch)
            appended = await self._append(partition, request)
            for offset, (_, accepted) in enumerate(some, appended.base_offset):
                accepted.message_id = derive_message_id(appended.lane, offset)
                accepted.sequence = offset
        self._answers = answers

    def _choose(self, message: Outgoing, turn: int) -> int:
        if self._send.partition >= 0:
            return self._send.partition
        if message.key is not None:
            return partition_for(message.key, len(self._route))
        return turn % len(self._route)

    async def _append(self, partition: Partition, request: TransactionBatch) -> Appended:
        groups = self._hall.wings
        if not partition.elsewhere or groups is None:
            return await append_in_transaction(self._hall, request)
        return await groups.append_in_transaction(group_of(partition.options.wings, partition.number), request)

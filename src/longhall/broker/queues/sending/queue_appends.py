"""What the queue service adds to sends: the rules of queues for the batches of Kafka producers, copies of messages
with a priority, and growth that Kafka producers notice.
"""

from __future__ import annotations

from typing import final

from longhall.broker.hall import Hall, QueueAppender
from longhall.broker.partition import Partition
from longhall.broker.produced import ProducedBatch, Sent
from longhall.broker.queues.delays.staging import DelayStager
from longhall.broker.queues.sending.priority_copy import PriorityCopier
from longhall.broker.queues.sending.produced_sends import ProducedSends
from longhall.broker.queues.upkeep.resizer import Resizer
from longhall.errors import Code
from longhall.records.batch import BatchHeader


@final
class QueueAppends(QueueAppender):
    """The queue service of one hall, as `broker.send` calls it."""

    def __init__(self, hall: Hall, resizer: Resizer, stager: DelayStager) -> None:
        self._copier = PriorityCopier(hall)
        self._resizer = resizer
        self._produced = ProducedSends(hall, stager)

    def send_by_rules(self, batch: ProducedBatch) -> Sent:
        return self._produced.send(batch)

    def append_with_copies(
        self, partition: Partition, header: BatchHeader, frame: bytes, at: int, now_ms: int, message: bool
    ) -> Code | None:
        return self._copier.append(partition, header, frame, at, now_ms, message)

    def partition_chosen(self, partition: Partition, sender: int) -> None:
        self._resizer.partition_chosen(partition, sender)

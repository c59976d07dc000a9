"""The check that a batch belongs to the open transaction of its producer (KIP-890)."""

from __future__ import annotations

from longhall.broker.hall import Hall
from longhall.broker.partition import Partition
from longhall.errors import Code
from longhall.records.batch import BatchHeader
from longhall.shards.shard import TRANSACTIONS


def check_transaction(
    hall: Hall, partition: Partition, header: BatchHeader, transactional_id: str | None, joins: bool
) -> Code | None:
    """None if the batch belongs to the transaction. With `joins` the partition is added to it.

    The event precedes the batch in the write-ahead log, so every committed batch has a known transaction. For a wing
    the main hall coordinates: `transaction_verification` asks it before the batch comes here, and again if a marker
    came while the batch waited for room in its queue.
    """
    if hall.options.wing:
        return Code.NOT_ENOUGH_REPLICAS
    if transactional_id is None:
        return Code.INVALID_PRODUCER_MAPPING
    transactions = hall.transactions_of(transactional_id)
    if not joins:
        return transactions.verify_partition(
            transactional_id, header.producer_id, header.producer_epoch, partition.topic, partition.number
        )
    decision = transactions.decide_add(
        transactional_id,
        header.producer_id,
        header.producer_epoch,
        hall.time.now_ms(),
        [(partition.topic, partition.number)],
    )
    for event in decision.events:
        hall.write_event(hall.shard_of(transactional_id), TRANSACTIONS, event, transactions.apply)
    if decision.events:
        for observer in hall.observers:
            observer.transaction_changed()
    return decision.code

"""Batches of transactions that the main hall carries out itself, at the leader of the group that stores the partition.

They take the way of a producer's batch: the coordinator adds the partition to the transaction before the append, and
the marker of its outcome follows. So readers of committed messages see them with the outcome, or never.
"""

from __future__ import annotations

import asyncio
from typing import Final

import msgspec

from longhall.broker.hall import Hall
from longhall.broker.produced import Sent
from longhall.broker.send import send
from longhall.broker.waiting import acknowledged
from longhall.errors import Code, LonghallError
from longhall.shards.shard import ALL

TIMEOUT_MS: Final = 10_000  # How long a batch waits for the coordinator and for room.


class TransactionBatch(msgspec.Struct, frozen=True, array_like=True):
    """One batch of a transaction for one partition; the batch names the producer."""

    transactional_id: str
    topic: str
    topic_id: bytes
    partition: int
    batch: bytes


class Appended(msgspec.Struct, frozen=True, array_like=True):
    """Where a batch is: the lane of its log, and the offset of its first message."""

    lane: int
    base_offset: int


async def append_in_transaction(hall: Hall, batch: TransactionBatch) -> Appended:
    """Append the batch, and reply when every replica in sync has it. LonghallError if it may not be appended."""
    partition = hall.partition(batch.topic, batch.partition)
    if partition is None or partition.topic_id != batch.topic_id:
        raise LonghallError(Code.UNKNOWN_TOPIC, f"There is no topic '{batch.topic}'.")
    size_bytes = len(batch.batch)
    sent = send(
        hall,
        partition,
        batch.batch,
        0,
        size_bytes,
        transactional_id=batch.transactional_id,
        joins_transaction=True,
        timeout_ms=TIMEOUT_MS,
    )
    if sent.later is not None:
        loop = asyncio.get_running_loop()
        done: asyncio.Future[Sent] = loop.create_future()
        sent.later.when_done(lambda result: None if done.done() else done.set_result(result))
        sent = await done
    if sent.code is not None:
        raise LonghallError(sent.code, sent.message)
    await acknowledged(hall, partition.shard, ALL)
    return Appended(partition.lane, sent.base_offset)

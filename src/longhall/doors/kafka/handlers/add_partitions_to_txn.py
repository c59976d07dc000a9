"""AddPartitionsToTxn: add partitions to a transaction."""

from __future__ import annotations

from longhall.broker.feature_gates import may_transact_in_groups
from longhall.doors.kafka.connection import Call
from longhall.doors.kafka.door import Door
from longhall.doors.kafka.errors import error_of, fenced_as
from longhall.doors.kafka.wire.error_codes import ErrorCode
from longhall.doors.kafka.wire.messages.transactions import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnRequestTopic,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnResponsePartition,
    AddPartitionsToTxnResponseTopic,
    AddPartitionsToTxnResponseTransactionResult,
)
from longhall.errors import Code
from longhall.names import SYSTEM_TOPICS

MANY_FROM = 4
FENCED_FROM = 2
# Below their feature level transactions do not extend to other replication groups. This is INVALID_TOPIC_EXCEPTION,
# which clients do not expect in this response: librdkafka, Java's client and kafka-python report it by its name, the
# transaction can only be aborted, and the producer goes on. INVALID_TXN_STATE would end the producer; clients retry
# UNKNOWN_TOPIC for ever.
IN_WINGS = Code.INVALID_NAME

Codes = dict[tuple[str, int], Code | None]


async def handle(door: Door, request: AddPartitionsToTxnRequest, call: Call) -> AddPartitionsToTxnResponse:
    version = call.header.version
    if version < MANY_FROM:
        topics = request.v3_and_below_topics
        codes = await _add(
            door,
            request.v3_and_below_transactional_id,
            request.v3_and_below_producer_id,
            request.v3_and_below_producer_epoch,
            topics,
        )
        return AddPartitionsToTxnResponse(results_by_topic_v3_and_below=_rows(topics, codes, version))
    results: list[AddPartitionsToTxnResponseTransactionResult] = []
    for one in request.transactions:
        if one.verify_only:
            wanted = [(topic.name, number) for topic in one.topics for number in topic.partitions]
            codes = door.transactor.verify(one.transactional_id, one.producer_id, one.producer_epoch, wanted)
        else:
            codes = await _add(door, one.transactional_id, one.producer_id, one.producer_epoch, one.topics)
        results.append(
            AddPartitionsToTxnResponseTransactionResult(
                transactional_id=one.transactional_id, topic_results=_rows(one.topics, codes, version)
            )
        )
    return AddPartitionsToTxnResponse(results_by_transaction=results)


async def _add(
    door: Door,
    transactional_id: str,
    producer_id: int,
    producer_epoch: int,
    topics: list[AddPartitionsToTxnRequestTopic],
) -> Codes:
    wanted = [(topic.name, number) for topic in topics for number in topic.partitions]
    if any(name in SYSTEM_TOPICS for name, _ in wanted):  # The end of the transaction would write a marker there.
        return await _begin_empty(door, transactional_id, producer_id, producer_epoch, wanted)
    missing = [place for place in wanted if door.hall.partition(*place) is None]
    if missing:  # All or none: the other partitions are reported as not attempted.
        return {place: Code.UNKNOWN_TOPIC if place in missing else Code.OPERATION_NOT_ATTEMPTED for place in wanted}
    placed = [place for place in wanted if (found := door.hall.partition(*place)) is not None and found.elsewhere]
    if placed and not may_transact_in_groups(door.hall):
        codes = await _begin_empty(door, transactional_id, producer_id, producer_epoch, wanted)
        is_begun = Code.OPERATION_NOT_ATTEMPTED in codes.values()
        return {place: IN_WINGS if is_begun and place in placed else code for place, code in codes.items()}
    decision = await door.transactor.add(transactional_id, producer_id, producer_epoch, partitions=wanted)
    return dict.fromkeys(wanted, decision.code)


async def _begin_empty(
    door: Door, transactional_id: str, producer_id: int, producer_epoch: int, wanted: list[tuple[str, int]]
) -> Codes:
    """Refuse all partitions. An empty transaction begins nevertheless: librdkafka aborts it, and there must be one to
    abort.
    """
    begun = await door.transactor.add(transactional_id, producer_id, producer_epoch)
    return dict.fromkeys(wanted, begun.code or Code.OPERATION_NOT_ATTEMPTED)


def _rows(
    topics: list[AddPartitionsToTxnRequestTopic], codes: Codes, version: int
) -> list[AddPartitionsToTxnResponseTopic]:
    return [
        AddPartitionsToTxnResponseTopic(
            name=topic.name,
            results_by_partition=[
                AddPartitionsToTxnResponsePartition(
                    partition_index=number,
                    partition_error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED
                    if topic.name in SYSTEM_TOPICS
                    else error_of(fenced_as(codes[topic.name, number], version >= FENCED_FROM)),
                )
                for number in topic.partitions
            ],
        )
        for topic in topics
    ]

"""TxnOffsetCommit: offsets of a group that are stored when the transaction commits."""

from __future__ import annotations

from longhall.doors.kafka.connection import Call
from longhall.doors.kafka.door import Door
from longhall.doors.kafka.errors import error_of, fenced_as
from longhall.doors.kafka.wire.messages.transactions import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)
from longhall.errors import Code
from longhall.topics.effects import CommitRequest

JOINS_FROM = 5
ABORTABLE_FROM = 4


async def handle(door: Door, request: TxnOffsetCommitRequest, call: Call) -> TxnOffsetCommitResponse:
    version = call.header.version
    missing = {
        (topic.name, part.partition_index)
        for topic in request.topics
        for part in topic.partitions
        if door.hall.partition(topic.name, part.partition_index) is None
    }
    result = await door.transactor.hold_offsets(
        request.transactional_id,
        CommitRequest(
            group_id=request.group_id,
            generation=request.generation_id,
            member_id=request.member_id,
            instance_id=request.group_instance_id,
            offsets=tuple(
                (
                    topic.name,
                    part.partition_index,
                    part.committed_offset,
                    part.committed_leader_epoch,
                    part.committed_metadata,
                )
                for topic in request.topics
                for part in topic.partitions
                if (topic.name, part.partition_index) not in missing
            ),
        ),
        request.producer_id,
        request.producer_epoch,
        joins=version >= JOINS_FROM,
    )
    # This response has no error for a fenced producer; clients recognise it by its epoch.
    everything = fenced_as(result.code, False)
    if everything is Code.TRANSACTION_ABORTABLE and version < ABORTABLE_FROM:
        everything = Code.INVALID_TRANSACTION_STATE

    def code_of(name: str, number: int) -> Code | None:
        if (name, number) in missing:
            return Code.UNKNOWN_TOPIC
        return everything if everything is not None else result.refused.get((name, number))

    return TxnOffsetCommitResponse(
        topics=[
            TxnOffsetCommitResponseTopic(
                name=topic.name,
                partitions=[
                    TxnOffsetCommitResponsePartition(
                        partition_index=part.partition_index,
                        error_code=error_of(code_of(topic.name, part.partition_index)),
                    )
                    for part in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )
